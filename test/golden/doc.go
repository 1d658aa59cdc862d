// Package golden compares what a test got with a file that people read, a golden file:
// generated text, or a document's generated part. With -update a test writes its files
// anew, and who has done that reads what has changed.
//
// It is for tests alone.
package golden
