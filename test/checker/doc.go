// Package checker tells whether gangs lived as they should, from what others saw of them:
// what the pods' processes wrote down themselves, Slurm's file of jobs that have ended
// (jobcomp/filetxt), the API server's watch, and the spool's files.
//
// It is a judge of the product, so it must share nothing with it: it imports no package of
// the product, and has its own reading of every file. It starts nothing and breaks nothing;
// those who do give it their deeds.
//
// Histories are gathered by a Recorder, judged by Check, and can be kept as JSON.
package checker
