// Package attach joins clients to the standard streams of a process that runs
// already, as kubectl attach does: a Console is opened for the process before it
// starts and holds its input open for whoever comes later.
//
// What the process writes goes to its log whatever the clients do. Each client has
// a backlog of its own, so that a slow one holds up nobody and misses nothing; one
// that falls too far behind is let go.
//
// The package starts no processes and knows neither pods nor the network. The rules
// of stdin, stdinOnce and tty are those of Kubernetes' API (corev1.Container), and
// where that is silent those of containerd.
package attach
