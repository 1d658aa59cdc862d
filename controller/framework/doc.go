// Package framework is the contract of the pipeline that turns a TrainJob and
// its runtime into objects: what plugins exchange (Info), what they may do in
// which phase (the interfaces), and what they make (Component). The phases and
// extension points are those of KEP-2170's pipeline framework.
//
// It decides nothing itself: package pipeline runs the plugins, their packages
// below plugins hold the rules. No plugin writes to the API server.
package framework
