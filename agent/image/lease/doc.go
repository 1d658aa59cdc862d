// Package lease lets one of many processes on many machines do a thing, by files on a
// shared filesystem alone, and lets another go on if that one dies.
//
// It trusts no lock of the filesystem's (flock may be missing, or be one machine's) and
// no clocks: what counts is that a holder's file changes, seen by a waiter for a time
// that the waiter measures. A lease is a file with a number, made by a link, which only
// one process can make. A dead holder's successor makes the file of the next number, so
// that a holder that was only asleep sees that it holds the lease no more.
//
// Over NFS that may take a minute. So two may work for a moment, and what they do must be
// harmless twice: done in a directory of one's own, and published by a rename.
package lease
