package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// sawSomething: who saw nothing can prove nothing. It demands of each source what a storm
// of this length and with so many users' gangs cannot be without; most gangs are deleted
// before they run, so it is a small part.
func sawSomething(h *index) (found []string) {
	owners, length := h.size()
	claims := 0
	for _, d := range h.Dirs {
		claims += len(d.Claims)
	}
	for what, n := range map[string]struct{ seen, least int }{
		"process that wrote down its beginning": {len(h.Processes), owners / 10},
		"process on the machine":                {h.Sightings, len(h.Processes)},
		"job in jobcomp":                        {len(h.Jobs), owners / 5},
		"pod in the API":                        {len(h.Pods), owners},
		"allocation in the spool":               {len(h.Dirs), owners / 5},
		"claim in the spool":                    {claims, owners / 10},
		"look into the spool":                   {h.Scans, int(length / time.Second)},
	} {
		switch least := max(1, n.least); {
		case n.seen == 0:
			found = append(found, "there was no "+what)
		case n.seen < least:
			found = append(found, fmt.Sprintf("there was too little of what is a %s: %d, and not %d", what, n.seen, least))
		}
	}
	strangers := 0
	for _, p := range h.Processes {
		if !slices.ContainsFunc(h.Pods, func(pod Pod) bool { return pod.UID == p.Pod }) {
			strangers++
		}
	}
	if strangers > 1+len(h.Processes)/20 {
		found = append(found, fmt.Sprintf("%d of %d processes were of pods that the API's watch never had", strangers, len(h.Processes)))
	}
	slices.Sort(found)
	return found
}

// size is how many gangs' owners were created, and how long deeds went on.
func (h *index) size() (owners int, length time.Duration) {
	if len(h.Deeds) == 0 {
		return 0, 0
	}
	began, ended := h.Deeds[0].At, h.Deeds[0].Until
	for _, d := range h.Deeds {
		if strings.HasPrefix(d.Kind, "create") && d.Error == "" {
			owners++
		}
		if d.At.Before(began) {
			began = d.At
		}
		if d.Until.After(ended) {
			ended = d.Until
		}
	}
	return owners, ended.Sub(began)
}

// Tally says in a line what a judgement of a history rests on: how much was seen, and how
// much of it deeds excuse.
func Tally(history History) string {
	h := newIndex(history)
	failures, excuses := 0, map[string]int{}
	for _, p := range h.Pods {
		if p.last().Phase != "Failed" {
			continue
		}
		failures++
		if runs := h.processesOf[p.UID]; !toldAsNoted(runs, p.last()) {
			excuses[h.excuse(p, runs)]++
		}
	}
	var kinds []string
	for kind, n := range excuses {
		if kind != "" {
			kinds = append(kinds, fmt.Sprintf("%d by %s", n, kind))
		}
	}
	slices.Sort(kinds)
	return fmt.Sprintf("%d pods, %d processes, %d jobs of %d allocations, %d of them submitted more than once, %d deeds; %d pods failed, excused: %s",
		len(h.Pods), len(h.Processes), len(h.Jobs), len(h.Dirs), len(h.twins()), len(h.Deeds), failures, strings.Join(kinds, ", "))
}
