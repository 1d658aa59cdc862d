// Package plan holds the resolved description of one dev Slurm cluster: its
// size, its user, its addresses, where its files lie, and the text of the
// configuration files that follow from them. It starts nothing.
package plan
