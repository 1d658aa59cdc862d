// Package follow reads the logs of many containers at once and writes them as one, line by
// line. It goes on where it was when a stream breaks, a container is started again, or
// another pod comes. It does not know which pods those are: its caller tells it of each.
//
// A line is known by its time, which the API server gives with it, and by its number among
// those of the same time: so nothing is written twice or left out when a log is asked for
// again.
package follow
