// Package dashboard proves that the chart's Grafana dashboard asks for what there is: every
// query is PromQL, and names only metrics and labels that docs/observability.md lists,
// which is kept by the code that makes them.
//
// It is a module of its own, so that the product does not depend on Prometheus' server.
package dashboard
