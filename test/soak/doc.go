// Package soak tells whether what is measured for a long time stays flat: by the slope of
// its second half, when what had to warm up is warm. It measures nothing itself and knows
// nothing of what its numbers mean.
package soak
