// Package sftpserver is the program behind the SFTP subsystem. Like OpenSSH's
// sftp-server it speaks on standard input and output, as a process of the pod:
// so it sees the pod's private root and no other, and may do what the user may.
//
// The protocol is version 3 (draft-ietf-secsh-filexfer-02) with OpenSSH's
// extensions posix-rename, hardlink and statvfs. The package knows neither SSH nor
// pods.
package sftpserver
