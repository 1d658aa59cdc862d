// Package tracing tells an OpenTelemetry collector how a gang has started: one trace for
// each start, from the moment its first pod was bound to the virtual node until its last
// pod runs, with spans of gangline-node, of the workload manager's queue and of the agents.
//
// HPC nodes mostly cannot reach a collector. So agents send nothing: they write when they
// did what into their reports, and the node makes their spans from that (service.name
// gangline-agent). A trace is made when the start is over, from times that were noted on
// the way; nothing has to be carried along, and a node that was started again in between
// leaves out only what it did not see.
//
// The package holds no rule of gangs, and nothing waits for it. Without a collector in the
// environment (OTEL_EXPORTER_OTLP_ENDPOINT and its like) there is no Tracer.
package tracing
