package checker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What a Script writes is what ReadNotes reads: a real shell runs it.
func TestScriptAndNotes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	run := func(uid, script string) int {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), UIDVariable+"="+uid, NamespaceVariable+"=n", "HOSTNAME=h-"+uid)
		_ = cmd.Run() // its exit code is what is looked at
		return cmd.ProcessState.ExitCode()
	}
	assert.Equal(t, 3, run("a", Script(file, "true", 3, -1)))
	assert.Equal(t, 9, run("b", Script(file, "kill -TERM $$; sleep 5", 0, 9)))
	assert.Equal(t, -1, run("c", Script(file, "kill -TERM $$; sleep 5", 0, -1)))
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read
	processes, err := ReadNotes(f)
	require.NoError(t, err)
	require.Len(t, processes, 3)
	for i, want := range []struct {
		pod   string
		code  int
		ended bool
	}{{"a", 3, true}, {"b", 9, true}, {"c", 0, false}} {
		p := processes[i]
		assert.Equal(t, want.pod, p.Pod)
		assert.Equal(t, "n/h-"+want.pod, p.Slot)
		assert.Equal(t, want.code, p.Code)
		assert.Equal(t, want.ended, !p.Ended.IsZero())
		assert.WithinDuration(t, time.Now(), p.Began, time.Minute)
	}
}

func TestAnEndWithoutItsTimeHasThatOfTheLineBefore(t *testing.T) {
	processes, err := ReadNotes(strings.NewReader("began a n/h 1 0 1.5\nbegan b n/i 2 0 2.5\nended a - 1 3 \n"))
	require.NoError(t, err)
	require.Len(t, processes, 2)
	assert.Equal(t, 3, processes[0].Code)
	assert.Equal(t, processes[1].Began, processes[0].Ended)
}

func TestNotesThatAreOdd(t *testing.T) {
	for name, text := range map[string]string{
		"a word too few":          "began a n/h 1 0\n",
		"an end without its life": "ended a - 1 0 1.5\n",
		"no number":               "began a n/h one 0 1.5\n",
		"no time":                 "began a n/h 1 0 noon\n",
	} {
		_, err := ReadNotes(strings.NewReader(text))
		assert.Error(t, err, name)
	}
}

func TestReadJobcomp(t *testing.T) {
	jobs, err := ReadJobcomp(strings.NewReader(`
JobId=4 UserId=hpcuser(1001) GroupId=hpcuser(1001) Name=set-1-worker JobState=FAILED Partition=batch TimeLimit=UNLIMITED StartTime=2026-11-30T10:00:01 EndTime=2026-11-30T10:00:09 NodeList=hpc[1-2] NodeCnt=2 ProcCnt=4 WorkDir=/a dir ReservationName= Tres=cpu=4,mem=1G Account= QOS= WcKey= Cluster=unknown SubmitTime=2026-11-30T10:00:00 EligibleTime=2026-11-30T10:00:00 DerivedExitCode=0:0 ExitCode=3:0
JobId=5 Name=never JobState=CANCELLED StartTime=Unknown EndTime=2026-11-30T10:00:02 NodeList=(null) SubmitTime=2026-11-30T10:00:00 ExitCode=0:15
`))
	require.NoError(t, err)
	local := func(second int) time.Time { return time.Date(2026, 11, 30, 10, 0, second, 0, time.Local) }
	assert.Equal(t, []Job{
		{ID: "4", Name: "set-1-worker", State: "FAILED", Code: 3, Submitted: local(0), Started: local(1), Ended: local(9), Nodes: "hpc[1-2]"},
		{ID: "5", Name: "never", State: "CANCELLED", Signal: 15, Submitted: local(0), Ended: local(2)},
	}, jobs)
	_, err = ReadJobcomp(strings.NewReader("JobId=4 ExitCode=odd\n"))
	assert.Error(t, err)
}

func TestRecorder(t *testing.T) {
	r := NewRecorder()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: types.UID("u")}}
	pod.Status.Phase = corev1.PodPending
	r.Pod(pod, at(0))
	r.Pod(pod, at(1)) // nothing new
	pod.Annotations = map[string]string{annotationAllocation: "x", annotationJob: "7", annotationNode: "hpc1"}
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}
	now := metav1.Now()
	pod.DeletionTimestamp = &now
	r.Pod(pod, at(2))
	r.PodGone("u", at(3))

	spool := t.TempDir()
	dir := filepath.Join(spool, "gangs", "x")
	require.NoError(t, os.MkdirAll(filepath.Join(spool, "gangs", ".trash-y"), 0o755))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("gang.json", `{"key":"g","generation":2,"groups":3}`)
	r.Scan(spool, at(1))
	write("claim", `{"jobID":"7","acquired":"2026-01-02T03:04:05Z"}`)
	write("ended.json", `{"outcome":"Failed"}`)
	r.Scan(spool, at(2))
	write("ended.json", `{"outcome":"Completed"}`)
	r.Scan(spool, at(3)) // it had ended before

	proc := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "12"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(proc, "12", "environ"), []byte("A=b\x00"+UIDVariable+"=u\x00"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "13"), 0o755))
	require.NoError(t, os.Symlink("/programs/agent", filepath.Join(proc, "13", "exe")))
	assert.Len(t, r.LookAtProcesses(proc, "/programs", at(2.5)), 2)
	r.Did(Deed{Kind: KillAgent})

	h := r.History([]Process{{Pod: "u"}}, []Job{{ID: "7"}}, []string{"left"})
	assert.Equal(t, History{
		Processes: []Process{{Pod: "u", LastSeen: at(2.5)}}, Jobs: []Job{{ID: "7"}}, Left: []string{"left"},
		Pods: []Pod{{UID: "u", Namespace: "n", Name: "p", Deleting: at(2), Gone: at(3), Seen: []Sight{
			{At: at(0), Phase: "Pending"},
			{At: at(2), Phase: "Failed", Message: "Error", Code: code(3), Allocation: "x", Job: "7", Node: "hpc1"},
		}}},
		Dirs:  []Dir{{Allocation: "x", Gang: "g", Generation: 2, Groups: 3, Claims: []string{"7"}, Claimed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Outcomes: []string{"Failed", "Completed"}, FirstSeen: at(1), LastSeen: at(3), Ended: at(2)}},
		Deeds: []Deed{{Kind: KillAgent}}, Sightings: 1, Scans: 3,
	}, h)
}
