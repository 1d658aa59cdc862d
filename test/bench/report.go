package main

import (
	"fmt"
	"slices"
)

// comparison is a figure of ours next to the bare one, round by round.
type comparison struct{ bare, ours, ratio []float64 }

func (c *comparison) add(bare, ours float64) {
	c.bare, c.ours, c.ratio = append(c.bare, bare), append(c.ours, ours), append(c.ratio, ours/bare)
}

func (c *comparison) print(bare, ours string) {
	row(bare, c.bare)
	row(ours, c.ours)
	row("ratio, round by round", c.ratio)
}

func heading(text string) {
	fmt.Printf("\n%-56s %9s %9s %9s\n", text, "min", "median", "max")
}

func row(name string, values []float64) {
	v := slices.Sorted(slices.Values(values))
	fmt.Printf("%-56s %9.3f %9.3f %9.3f\n", name, v[0], median(v), v[len(v)-1])
}

// median is that of sorted values.
func median(v []float64) float64 {
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
