// Command scale runs a virtual node with as many pods as are asked for, against a real API
// server and a simulated workload manager (see package simulator), and prints one table of
// figures with the goals next to them. docs/scale.md tells what they mean.
//
// It fails where something is not as it must be: a pod that did not run or ran twice, a job
// too many, a write in the steady state, anything left over. It never fails for being slow.
//
// With --failures or --kills it measures nothing: it is a storm over the pods, whose ends are
// then judged.
//
// One program has three parts, each in a process of its own, so that what the node needs is
// measured truly: this one, the simulator, and the node, which is the provider as it is in
// the product with simulator.Client for its workload manager. Nothing of it is in the product.
package main
