// Package xgboost prepares training nodes for xgboost's collective: where the
// tracker is, which the node of rank 0 runs, and how many workers there are. A
// node has one worker for each of its GPUs, or one if it has none.
//
// The TrainJob's env is package plainml's business, which runs before.
package xgboost
