// Package helm runs the real Helm on charts/gangline. It is a module of its own,
// so that the product does not depend on Helm. It must not know what the chart
// renders: that is in golden files.
package helm
