package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/test/simulator"
)

// verdict holds what the API server's watch saw against what the simulator wrote down.
type verdict struct {
	batch    batch
	seen     map[string]seenPod
	accounts map[string]simulator.Account // by the allocation's name
	kills    []time.Time                  // of the virtual node
	stats    simulator.Stats

	// What judge finds: broken rules in words, and how many pods ended by themselves, and
	// by a harm, by the reason they show.
	violations []string
	own        int
	harmed     map[string]int
	harms      map[simulator.Harm]int // done to jobs
	twins      int                    // jobs too many, each explained by an answer that was lost
}

// judge finds what is not as it must be. A storm that does harm must have harmed something.
func (v *verdict) judge(harmful bool) {
	v.harmed, v.harms = map[string]int{}, map[simulator.Harm]int{}
	for i := range v.batch.pods {
		name := v.batch.pod(i).Name
		_, code := program(v.batch.seed, i)
		if why := v.ofPod(v.seen[name], code); why != "" {
			v.violations = append(v.violations, fmt.Sprintf("pod %s: %s", name, why))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.accounts)) {
		v.ofJobs(name, v.accounts[name])
	}
	for _, uid := range v.stats.Twice {
		v.violations = append(v.violations, "pod "+uid+" was run twice")
	}
	if v.own == 0 || harmful && len(v.harmed) == 0 {
		v.violations = append(v.violations, fmt.Sprintf("nothing is shown: %d pods ended by themselves, and by harm %v", v.own, v.harmed))
	}
}

// ofPod says what is wrong with a pod's end, whose program ends with a code.
func (v *verdict) ofPod(p seenPod, code int32) string {
	account := v.accounts[p.allocation]
	own, ended := account.Ends[p.uid]
	truth := corev1.PodSucceeded
	if code != 0 {
		truth = corev1.PodFailed
	}
	switch {
	case p.uid == "":
		return "it is gone"
	case p.broken != "":
		return p.broken
	case !p.over():
		return fmt.Sprintf("it has not ended but is %s (%s)", p.phase, p.reason)
	case p.phase == truth && p.code == code && p.reason == "":
		if !ended || own != code {
			return fmt.Sprintf("it is shown as %s (%d), and its program has not ended so", p.phase, code)
		}
		v.own++
		return ""
	case ended:
		return fmt.Sprintf("its program has ended with %d, and it is shown as %s (%d) %s", own, p.phase, p.code, p.reason)
	case len(account.Harms) == 0:
		return fmt.Sprintf("no harm came to it, its program ends with %d, and it is shown as %s (%d) %s", code, p.phase, p.code, p.reason)
	case p.phase != corev1.PodFailed || p.reason == "":
		return fmt.Sprintf("%s, and it is shown as %s (%d) without a reason", account.Harms[0], p.phase, p.code)
	}
	v.harmed[p.reason]++
	return ""
}

// ofJobs looks for a second job of an allocation. The node may have made one only when it
// could not know of the first: its answer was lost, or the node was killed since.
func (v *verdict) ofJobs(name string, a simulator.Account) {
	for _, h := range a.Harms {
		v.harms[h]++
	}
	excused := a.Unanswered
	for i, again := range a.Submitted[:max(0, len(a.Submitted)-1)] {
		next := a.Submitted[i+1]
		if slices.ContainsFunc(v.kills, func(k time.Time) bool { return k.After(again.Add(-submitting)) && k.Before(next) }) {
			excused++
		}
	}
	switch more := len(a.Submitted) - 1; {
	case more > excused:
		v.violations = append(v.violations, fmt.Sprintf("allocation %s has %d jobs, and %d answers were lost", name, more+1, excused))
	case more > 0:
		v.twins += more
	}
}

// submitting is how long before a job is there its submission may have begun.
const submitting = time.Second

func lines(all []string) string { return "  " + strings.Join(all, "\n  ") }
