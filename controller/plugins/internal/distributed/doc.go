// Package distributed is what those plugins share whose training nodes find each
// other through the node of rank 0: how many nodes there are, where rank 0
// listens, and which rank a pod has. It is no plugin itself, and what a framework
// calls these things is the plugins' business.
package distributed
