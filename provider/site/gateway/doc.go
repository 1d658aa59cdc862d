// Package gateway serves an HPC site to another process: Serve is the gateway, a
// process that runs as the site's user, and Client is the other side's Site.
//
// They speak over a pair of streams, such as the gateway's standard input and
// output, also those of a command that runs on a login node. The gateway says its
// greeting, a line of text; what a login shell prints before it is skipped. Then
// either side sends messages: two lengths, a JSON header, and the bytes that belong
// to it. Calls run at the same time; one that is given up is told to the gateway, and has
// taught its caller nothing. A change of files that is given up ends the gateway: what is
// asked next comes after it, for it is asked of another, which waits for the lock.
//
// The gateway takes the lock that the client names (see spool.Lock), holds it while
// it lives, and hands it on to locked commands. It ends when its input ends, or when
// the client has been silent for too long: a network that is cut ends no stream.
// Locked commands are waited for.
//
// The client trusts the gateway no further than the gateway's user: it bounds what
// it reads. The gateway trusts its client, who started it.
package gateway
