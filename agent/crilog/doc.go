// Package crilog writes and reads container logs in the format of the Container
// Runtime Interface: a line is
//
//	<RFC 3339 time with nanoseconds> <stdout|stderr> <F|P> <text>
//
// where P marks a piece of a longer line and F its last piece (or a whole line).
//
// A run's log is a row of files, its parts: 0.log, 0.1.log, 0.2.log and so on. A
// part that is full is followed by the next, and the oldest are removed. None is
// ever renamed, so a reader on another host, who learns of changes late, cannot
// mistake one for another; and none is compressed: the processors are the job's.
//
// The package knows nothing of pods. It never shows what is not a log's line.
package crilog
