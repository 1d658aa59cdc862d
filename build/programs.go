package main

import (
	"fmt"
	"slices"
	"strings"
)

// program is one of ours.
type program struct {
	name, path string
	// dynamic programs can do more with the system's C library.
	dynamic bool
}

func allPrograms() []program {
	return []program{
		{name: "gangline-agent", path: "./cmd/gangline-agent"},
		{name: "gangline-controller", path: "./cmd/gangline-controller"},
		{name: "gangline-node", path: "./cmd/gangline-node", dynamic: true},
		{name: "kubectl-gangline", path: "./cmd/kubectl-gangline"},
	}
}

// image is a container image: programs on nothing else.
type image struct {
	name string
	// programs are in /usr/local/bin; the first is what it runs.
	programs []string
}

func allImages() []image {
	return []image{
		{name: "gangline-controller", programs: []string{"gangline-controller"}},
		// The node brings the agent to login nodes.
		{name: "gangline-node", programs: []string{"gangline-node", "gangline-agent"}},
		// For an init container that puts it on a shared filesystem.
		{name: "gangline-agent", programs: []string{"gangline-agent"}},
	}
}

// choose finds programs by names with commas between them.
func choose(names string) ([]program, error) {
	all := allPrograms()
	if names == "" {
		return all, nil
	}
	var chosen []program
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--programs: there is no program %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
