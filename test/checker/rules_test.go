package checker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// at is a moment of the made-up histories, in seconds.
func at(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func code(n int) *int { return &n }

// healthy is a history of two gangs: a JobSet of two pods, and a Job that fails with 3.
func healthy() History {
	pod := func(uid, name, allocation, job, node string, phase string, exit int, end float64) Pod {
		return Pod{UID: uid, Namespace: "n", Name: name, Seen: []Sight{
			{At: at(0), Phase: "Pending"},
			{At: at(3), Phase: "Running", Allocation: allocation, Job: job, Node: node},
			{At: at(end), Phase: phase, Allocation: allocation, Job: job, Node: node, Code: code(exit)},
		}, Gone: at(end + 5)}
	}
	return History{
		Processes: []Process{
			{Pod: "a", Slot: "n/set-0", PID: 1, Began: at(3), Ended: at(6), LastSeen: at(5.9)},
			{Pod: "b", Slot: "n/set-1", PID: 2, Began: at(3), Ended: at(7), LastSeen: at(6.9)},
			{Pod: "c", Slot: "n/job", PID: 3, Began: at(3), Ended: at(5), Code: 3, LastSeen: at(5)},
		},
		Jobs: []Job{
			{ID: "1", Name: "set-1-x", State: "COMPLETED", Submitted: at(1), Started: at(2), Ended: at(8), Nodes: "hpc[1-2]"},
			{ID: "2", Name: "job-1-y", State: "FAILED", Code: 3, Submitted: at(1), Started: at(2), Ended: at(6), Nodes: "hpc3"},
		},
		Pods: []Pod{
			pod("a", "set-0-a", "set-1-x", "1", "hpc1", "Succeeded", 0, 7),
			pod("b", "set-1-b", "set-1-x", "1", "hpc2", "Succeeded", 0, 8),
			pod("c", "job-c", "job-1-y", "2", "hpc3", "Failed", 3, 6),
		},
		Dirs: []Dir{
			{Allocation: "set-1-x", Gang: "set", Generation: 1, Claims: []string{"1"}, Outcomes: []string{"Succeeded"}, FirstSeen: at(1), LastSeen: at(9), Ended: at(9)},
			{Allocation: "job-1-y", Gang: "job", Generation: 1, Claims: []string{"2"}, Outcomes: []string{"Failed"}, FirstSeen: at(1), LastSeen: at(7), Ended: at(7)},
		},
		Sightings: 9, Scans: 9,
	}
}

func TestAHealthyHistoryHasNothingToTell(t *testing.T) {
	assert.Empty(t, Check(healthy()))
}

// A checker that cannot fail is worthless: each fault must be told, by its rule and no other.
func TestEachFaultIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		rule  string
		spoil func(*History)
	}{
		"in a long storm one of each is too little": {"the checker saw something", func(h *History) {
			for i := range 40 {
				h.Deeds = append(h.Deeds, Deed{Kind: "createJob", At: at(float64(i)), Until: at(float64(i))})
			}
		}},
		"hardly ever was the spool looked into": {"the checker saw something", func(h *History) {
			h.Deeds = []Deed{{Kind: "deleteNode", At: at(0), Until: at(1)}, {Kind: "deleteNode", At: at(60), Until: at(61)}}
		}},
		"the watch did not have the pods that ran": {"the checker saw something", func(h *History) {
			for _, uid := range []string{"x", "y"} {
				h.Processes = append(h.Processes, Process{Pod: uid, Slot: uid, Began: at(3), Ended: at(4)})
			}
		}},
		"no process was ever seen": {"the checker saw something", func(h *History) { h.Sightings = 0 }},
		"the spool was never read": {"the checker saw something", func(h *History) { h.Scans = 0 }},
		"no job is in jobcomp":     {"the checker saw something", func(h *History) { h.Jobs = nil }},
		"a pod's process began twice": {"a pod runs once", func(h *History) {
			h.Processes = append(h.Processes, Process{Pod: "a", Slot: "n/set-0", PID: 9, Began: at(3.5), Ended: at(5)})
		}},
		"a pod began before the one that had its place had ended": {"no two processes are in one place of a gang at once", func(h *History) {
			h.Processes = append(h.Processes, Process{Pod: "d", Slot: "n/set-0", Began: at(5), Ended: at(9)})
		}},
		"a pod began while children of the one before it were seen": {"no two processes are in one place of a gang at once", func(h *History) {
			h.Processes[0].LastSeen = at(6.9) // before the API said that it had ended
			h.Processes = append(h.Processes, Process{Pod: "d", Slot: "n/set-0", Began: at(6.5), Ended: at(9)})
		}},
		"two jobs had one claim": {"an allocation has one job", func(h *History) { h.Dirs[0].Claims = []string{"1", "7"} }},
		"a second job for no reason": {"an allocation has one job", func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: "7", Name: "set-1-x", State: "FAILED", Submitted: at(3), Started: at(4), Ended: at(5)})
		}},
		"a second job long after a kill": {"an allocation has one job", func(h *History) {
			h.Deeds = []Deed{{Kind: "killNode", At: at(-200), Until: at(-199)}}
			h.Jobs = append(h.Jobs, Job{ID: "7", Name: "set-1-x", State: "FAILED", Submitted: at(3), Started: at(4), Ended: at(5)})
		}},
		"a second job after a kill that came when the first was answered": {"an allocation has one job", func(h *History) {
			h.Deeds = []Deed{{Kind: "killNode", At: at(30), Until: at(31)}}
			h.Jobs = append(h.Jobs, Job{ID: "7", Name: "set-1-x", State: "FAILED", Submitted: at(32), Started: at(33), Ended: at(34)})
			h.Scans = 99
		}},
		"a second job in the same second is no component": {"an allocation has one job", func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: "2", Name: "set-1-x", State: "FAILED", Submitted: at(1), Started: at(2), Ended: at(5)})
		}},
		"a third job of two components": {"an allocation has one job", func(h *History) {
			h.Dirs[0].Groups = 2
			for _, id := range []string{"2", "3"} {
				h.Jobs = append(h.Jobs, Job{ID: id, Name: "set-1-x", State: "COMPLETED", Submitted: at(1), Started: at(2), Ended: at(8)})
			}
		}},
		"a job whose id was given to the next": {"an allocation has one job", func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: "1", Name: "set-1-x", State: "FAILED", Submitted: at(9), Started: at(9), Ended: at(10)})
		}},
		"each second job has a deed, but there are too many": {"an allocation has one job", func(h *History) {
			h.Deeds = []Deed{{Kind: "killNode", At: at(1), Until: at(2)}}
			for id, name := range map[string]string{"7": "set-1-x", "8": "job-1-y"} {
				h.Jobs = append(h.Jobs, Job{ID: id, Name: name, State: "FAILED", Submitted: at(3), Started: at(4), Ended: at(5)})
			}
		}},
		"the next allocation ran while the last one did": {"a gang has one allocation at once", func(h *History) {
			h.Dirs = append(h.Dirs, Dir{Allocation: "set-2-z", Gang: "set", Generation: 2, Claims: []string{"8"}, FirstSeen: at(9.5)})
			h.Jobs = append(h.Jobs, Job{ID: "8", Name: "set-2-z", Submitted: at(3), Started: at(7), Ended: at(10)})
		}},
		"the next allocation was made before the last had ended": {"a gang has one allocation at once", func(h *History) {
			h.Dirs[0].Ended = time.Time{}
			h.Dirs = append(h.Dirs, Dir{Allocation: "set-2-z", Gang: "set", Generation: 2, FirstSeen: at(5)})
		}},
		"the last allocation ended after the next was made": {"a gang has one allocation at once", func(h *History) {
			h.Dirs = append(h.Dirs, Dir{Allocation: "set-2-z", Gang: "set", Generation: 2, FirstSeen: at(8.5)})
		}},
		"an allocation outlived the next but one": {"a gang has one allocation at once", func(h *History) {
			h.Dirs = append(h.Dirs,
				Dir{Allocation: "set-2-z", Gang: "set", Generation: 2, FirstSeen: at(9.5), LastSeen: at(9.6), Ended: at(9.6)},
				Dir{Allocation: "set-3-z", Gang: "set", Generation: 3, FirstSeen: at(8.5)})
		}},
		"two allocations of one generation": {"a gang has one allocation at once", func(h *History) {
			h.Dirs = append(h.Dirs, Dir{Allocation: "set-1-z", Gang: "set", Generation: 1, FirstSeen: at(20)})
		}},
		"another exit code than the process's": {"a pod's end is true", func(h *History) { h.Pods[2].Seen[2].Code = code(137) }},
		"a failure told as a success": {"a pod's end is true", func(h *History) {
			h.Pods[2].Seen[2].Phase, h.Pods[2].Seen[2].Code = "Succeeded", code(0)
		}},
		"a success that never began": {"a pod's end is true", func(h *History) { h.Processes = h.Processes[1:] }},
		"a success whose process never ended": {"a pod's end is true", func(h *History) {
			h.Processes[0].Ended = time.Time{}
		}},
		"a success with an exit code that is none": {"a pod's end is true", func(h *History) { h.Pods[0].Seen[2].Code = code(1) }},
		"an end without an exit code":              {"a pod's end is true", func(h *History) { h.Pods[0].Seen[2].Code = nil }},
		"a kill of the node's program that changed an end": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: "killNode", At: at(4), Until: at(5)}, {Kind: "freezeAPI", At: at(4), Until: at(5)}, {Kind: "fillSpool", At: at(4), Until: at(5)}}
			h.Pods[2].Seen[2].Code = code(137)
		}},
		"a crash elsewhere that changed an end": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: CrashNode, Node: "hpc1", At: at(4), Until: at(5)}}
			h.Pods[2].Seen[2].Code = code(137)
		}},
		"a killed process without a killer": {"a pod's end is true", func(h *History) {
			h.Processes[2].Ended, h.Pods[2].Seen[2].Code = time.Time{}, code(137)
		}},
		"a killed process that was deleted when it had ended": {"a pod's end is true", func(h *History) {
			h.Processes[2].Ended, h.Pods[2].Seen[2].Code, h.Pods[2].Deleting = time.Time{}, code(137), at(6.5)
		}},
		"a deletion does not change a code": {"a pod's end is true", func(h *History) {
			h.Pods[2].Seen[2].Code, h.Pods[2].Deleting = code(137), at(4)
		}},
		"a slurmctld that forgot does not change a code": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(4), Until: at(5)}}
			h.Pods[2].Seen[2].Code = code(137)
		}},
		"a power cut of long before its job": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: CrashNode, Node: "hpc3", At: at(-30), Until: at(-20)}}
			h.Scans, h.Processes[2].Ended, h.Pods[2].Seen[2].Code = 99, time.Time{}, code(137)
		}},
		"a pod without an allocation, while a node was off": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: CrashNode, Node: "hpc3", At: at(0), Until: at(9)}}
			h.Pods = append(h.Pods, Pod{UID: "d", Seen: []Sight{{At: at(1), Phase: "Pending"}, {At: at(3), Phase: "Failed", Code: code(137)}}, Gone: at(4)})
		}},
		"a job that failed before it ran, whatever slurmctld": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(30), Until: at(31)}}
			h.Processes, h.Dirs[1].Claims = h.Processes[:2], nil
			h.Pods[2].Seen[2] = Sight{At: at(40), Phase: "Failed", Allocation: "job-1-y", Job: "2", Code: code(137)}
			h.Scans, h.Pods[2].Gone = 99, at(41)
		}},
		"a power cut long after a process told its code": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: CrashNode, Node: "hpc3", At: at(24), Until: at(25)}}
			h.Pods[2].Seen[2] = Sight{At: at(30), Phase: "Failed", Allocation: "job-1-y", Job: "2", Node: "hpc3", Code: code(137)}
			h.Pods[2].Gone = at(40)
		}},
		"a slurmctld that was killed knew a job of a minute ago": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(4), Until: at(5)}}
			h.Jobs[1].Submitted, h.Jobs[1].Started = at(-60), at(-59)
			h.Processes[2].Ended, h.Pods[2].Seen[2].Code = time.Time{}, code(137)
		}},
		"an agent that was killed after the end": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: KillAgent, Allocation: "job-1-y", At: at(7), Until: at(7)}}
			h.Processes[2].Ended, h.Pods[2].Seen[2].Code = time.Time{}, code(137)
		}},
		"a spool that was full when a job began": {"a pod's end is true", func(h *History) {
			h.Deeds = []Deed{{Kind: "fillSpool", At: at(1), Until: at(5)}, {Kind: StopSlurmctld, At: at(1), Until: at(2)}}
			h.Processes, h.Dirs[1].Claims, h.Pods[2].Seen[2].Code = h.Processes[:2], nil, code(137)
		}},
		"a pod that failed before it began": {"a pod's end is true", func(h *History) { h.Processes = h.Processes[:2] }},
		"an end that changed": {"an end is final", func(h *History) {
			s := h.Pods[2].Seen
			h.Pods[2].Seen = []Sight{s[0], s[1], {At: at(6), Phase: "Failed", Allocation: "job-1-y", Code: code(1)}, s[2]}
		}},
		"an allocation with another outcome than before": {"an end is final", func(h *History) { h.Dirs[0].Outcomes = []string{"Succeeded", "Failed"} }},
		"a running pod that waits again": {"an end is final", func(h *History) {
			s := h.Pods[2].Seen
			h.Pods[2].Seen = []Sight{s[0], s[1], {At: at(4), Phase: "Pending", Allocation: "job-1-y"}, s[2]}
		}},
		"a pod that was over while its child ran": {"nothing is freed while it runs", func(h *History) { h.Processes[2].LastSeen = at(6.5) }},
		"a pod that was gone while it ran": {"nothing is freed while it runs", func(h *History) {
			h.Pods[2].Seen, h.Pods[2].Deleting, h.Pods[2].Gone = h.Pods[2].Seen[:2], at(3.5), at(4)
		}},
		"a pod that never ended": {"every pod came to an end", func(h *History) {
			h.Pods[2].Seen, h.Pods[2].Gone = h.Pods[2].Seen[:2], time.Time{}
		}},
		"a job with another end than its pod": {"the site's accounting is true", func(h *History) { h.Jobs[1].Code = 0 }},
		"a job left over":                     {"nothing is left", func(h *History) { h.Left = []string{"job 9"} }},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthy()
			test.spoil(&h)
			rules := map[string]bool{}
			for _, v := range Check(h) {
				rules[v.Rule] = true
				assert.NotEmpty(t, v.What)
			}
			assert.Equal(t, map[string]bool{test.rule: true}, rules)
		})
	}
}

func TestWhatADeedExplains(t *testing.T) {
	for name, change := range map[string]func(*History){
		"the pod was deleted": func(h *History) { h.Pods[2].Deleting = at(4) },
		"its agent was killed": func(h *History) {
			h.Deeds = []Deed{{Kind: KillAgent, Allocation: "job-1-y", At: at(4), Until: at(4)}}
		},
		"its job was cancelled": func(h *History) {
			h.Deeds = []Deed{{Kind: CancelJob, Allocation: "job-1-y", At: at(4), Until: at(4)}}
		},
		"its node crashed": func(h *History) { h.Deeds = []Deed{{Kind: CrashNode, Node: "hpc3", At: at(4), Until: at(9)}} },
		"its job's id was given again": func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(-3), Until: at(0.5)}}
			h.Dirs = append(h.Dirs, Dir{Allocation: "old-1-z", Gang: "old", Generation: 1, Claims: []string{"2"}})
		},
		"slurmctld forgot a job without a trace": func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(4), Until: at(5)}}
			h.Jobs = h.Jobs[:1]
		},
		"a job was cancelled by Slurm after a kill": func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(4), Until: at(5)}}
			h.Jobs[1].Submitted, h.Jobs[1].Started, h.Jobs[1].State = at(-60), at(-59), "NODE_FAIL"
		},
		"slurmctld forgot a start, and jobcomp has the second": func(h *History) {
			h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(4), Until: at(5)}}
			h.Jobs[1].Submitted, h.Jobs[1].Started, h.Dirs[1].Claimed = at(-60), at(5.5), at(3)
		},
		"slurmctld forgot": func(h *History) { h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(4), Until: at(5)}} },
	} {
		t.Run(name, func(t *testing.T) {
			h := healthy()
			h.Processes[2].Ended, h.Pods[2].Seen[2].Code = time.Time{}, code(137)
			assert.NotEmpty(t, Check(h), "without the deed it is a fault")
			change(&h)
			assert.Empty(t, Check(h))
		})
	}
	t.Run("a second job after a kill, which runs nothing", func(t *testing.T) {
		h := healthy()
		h.Deeds = []Deed{{Kind: "killNode", At: at(1), Until: at(2)}}
		h.Jobs = append(h.Jobs, Job{ID: "7", Name: "set-1-x", State: "FAILED", Submitted: at(3), Started: at(4), Ended: at(5)})
		assert.Empty(t, Check(h))
	})
	t.Run("a pod that no node took on is failed by Kubernetes when it is deleted", func(t *testing.T) {
		h := healthy()
		h.Pods = append(h.Pods, Pod{UID: "d", Seen: []Sight{{At: at(1), Phase: "Pending"}, {At: at(3), Phase: "Failed"}}, Deleting: at(2), Gone: at(3)})
		assert.Empty(t, Check(h))
		h.Pods[3].Deleting = time.Time{}
		assert.NotEmpty(t, Check(h), "nobody has deleted it")
	})
	t.Run("a pod whose Node object was long gone is failed by Kubernetes", func(t *testing.T) {
		h := healthy()
		h.Scans, h.Pods[2].Gone = 99, at(60)
		h.Pods[2].Seen[2] = Sight{At: at(50), Phase: "Failed", Allocation: "job-1-y", Job: "2"}
		assert.NotEmpty(t, Check(h), "nobody has deleted the Node object")
		h.Deeds = []Deed{{Kind: "deleteNode", At: at(4), Until: at(4)}}
		assert.Empty(t, Check(h))
	})
	t.Run("a power cut just after a process's last word", func(t *testing.T) {
		h := healthy()
		h.Deeds = []Deed{{Kind: CrashNode, Node: "hpc3", At: at(5.5), Until: at(9)}}
		h.Pods[2].Seen[2].Code = code(137)
		assert.Empty(t, Check(h))
	})
	t.Run("a slurmctld that has just begun starts a job that can have no step", func(t *testing.T) {
		h := healthy()
		h.Processes, h.Pods[2].Seen[2].Code = h.Processes[:2], code(137)
		h.Deeds = []Deed{{Kind: StopSlurmctld, At: at(-3), Until: at(1)}}
		assert.NotEmpty(t, Check(h), "Slurm did not say so")
		h.Pods[2].Seen[2].Message = "srun: error: Unable to create step for job 2: Invalid generic resource (gres) specification"
		assert.Empty(t, Check(h))
	})
	t.Run("a job that Slurm starts again is one", func(t *testing.T) {
		h := healthy()
		h.Jobs = append(h.Jobs, h.Jobs[0])
		h.Jobs[0].State, h.Jobs[0].Ended, h.Jobs[2].Submitted, h.Jobs[2].Started = "NODE_FAIL", at(2), at(3), at(3)
		assert.Empty(t, Check(h))
	})
	t.Run("a heterogeneous job has several lines", func(t *testing.T) {
		h := healthy()
		h.Dirs[0].Groups = 2
		h.Jobs = append(h.Jobs, Job{ID: "2", Name: "set-1-x", State: "COMPLETED", Submitted: at(1), Started: at(2), Ended: at(8), Nodes: "hpc3"})
		assert.Empty(t, Check(h))
	})
}

func TestExpand(t *testing.T) {
	for list, want := range map[string][]string{
		"":                nil,
		"hpc3":            {"hpc3"},
		"a-hpc[1-3,5],b7": {"a-hpc1", "a-hpc2", "a-hpc3", "a-hpc5", "b7"},
		"n[009-011]":      {"n009", "n010", "n011"},
		"x,y,z":           {"x", "y", "z"},
	} {
		assert.Equal(t, want, expand(list), list)
	}
}

// TestASecondEndSaysNothingOfTheFirst: a slurmctld that was killed may have forgotten that a
// job has ended, and ends it once more.
func TestASecondEndSaysNothingOfTheFirst(t *testing.T) {
	h := healthy()
	again := h.Jobs[1]
	again.State, again.Code, again.Signal, again.Ended = "NODE_FAIL", 0, 1, h.Jobs[1].Ended.Add(20*time.Second)
	h.Jobs = append(h.Jobs, again)
	kill := []Deed{{Kind: KillSlurmctld, At: h.Jobs[1].Ended.Add(4 * time.Second), Until: h.Jobs[1].Ended.Add(6 * time.Second)}}
	assert.NotEmpty(t, Check(h), "without a kill it is a fault")
	h.Deeds = kill
	assert.Empty(t, Check(h))
	h.Jobs[1].Code = 9
	assert.NotEmpty(t, Check(h), "the first must be true all the same")
}

// TestASecondStartSaysNothingOfTheFirst: a slurmctld that was killed may have forgotten that
// it started a job, and starts it once more when all is over.
func TestASecondStartSaysNothingOfTheFirst(t *testing.T) {
	h := healthy()
	h.Jobs[1].Code, h.Jobs[1].Started, h.Jobs[1].Ended = 1, at(7), at(7)
	assert.NotEmpty(t, Check(h), "without a kill it is a fault")
	h.Deeds = []Deed{{Kind: KillSlurmctld, At: at(5.5), Until: at(6.5)}}
	assert.Empty(t, Check(h))
}
