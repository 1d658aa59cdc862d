package preflight

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

func TestClocks(t *testing.T) {
	for sentence, tc := range map[string]struct {
		clock doctor.Clock
		want  doctor.Status
		says  string
	}{
		"the same":                         {doctor.Clock{}, doctor.OK, "as this machine's"},
		"off by less than can be measured": {doctor.Clock{Ahead: 400 * time.Millisecond, Error: 500 * time.Millisecond}, doctor.OK, "give or take 500ms"},
		"a second ahead":                   {doctor.Clock{Ahead: time.Second, Error: time.Millisecond}, doctor.OK, "1s ahead of"},
		"three seconds behind":             {doctor.Clock{Ahead: -3 * time.Second, Error: time.Millisecond}, doctor.Warn, "3s behind"},
		"three seconds, and a slow answer": {doctor.Clock{Ahead: 3 * time.Second, Error: 2 * time.Second}, doctor.OK, "3s ahead"},
		"two minutes ahead":                {doctor.Clock{Ahead: 2 * time.Minute, Error: time.Second}, doctor.Fail, "tokens and certificates"},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := judgeClock("hpc1", tc.clock)
			assert.Equal(t, tc.want, l.Status)
			assert.Contains(t, l.Message, tc.says)
		})
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	c := dateClock(noon, noon.Add(900*time.Millisecond), 100*time.Millisecond)
	assert.LessOrEqual(t, c.Ahead.Abs(), c.Error, "a time in whole seconds is half a second off on average")
}

func inventory() wlm.Inventory {
	return wlm.Inventory{Partitions: []wlm.Partition{
		{Name: "batch", Default: true, Nodes: []wlm.Node{{Name: "a", GPUs: 8, Usable: true}, {Name: "b", GPUs: 8, Usable: true}}},
		{Name: "mixed", Nodes: []wlm.Node{{Name: "a", GPUs: 8, Usable: true}, {Name: "c", State: "drained"}, {Name: "d", Usable: true}}},
		{Name: "old", Nodes: []wlm.Node{{Name: "c", State: "down*"}}},
	}}
}

func TestPartitions(t *testing.T) {
	for sentence, tc := range map[string]struct {
		name string
		want doctor.Status
		says string
	}{
		"the default one":     {"", doctor.OK, "batch: 2 of 2 nodes"},
		"one with a node off": {"mixed", doctor.Warn, "c drained"},
		"one with all off":    {"old", doctor.Fail, "0 of 1"},
		"one that is not":     {"nope", doctor.Fail, `there is no "nope", which partition names`},
	} {
		t.Run(sentence, func(t *testing.T) {
			lines := judgePartitions(inventory(), []Wanted{{tc.name, "partition"}, {tc.name, "again"}})
			require.Len(t, lines, 1)
			assert.Equal(t, tc.want, lines[0].Status)
			assert.Contains(t, lines[0].Message, tc.says)
		})
	}
	assert.Equal(t, doctor.Fail, judgePartitions(wlm.Inventory{}, []Wanted{{"", "partition"}})[0].Status)
}

func TestSizes(t *testing.T) {
	for sentence, tc := range map[string]struct {
		partition   string
		options     Options
		nodes, gpus int
	}{
		"two nodes with a GPU each":            {"batch", Options{Nodes: 2, GPUs: -1}, 2, 1},
		"no more than there are":               {"batch", Options{Nodes: 9, GPUs: 0}, 2, 0},
		"all":                                  {"batch", Options{GPUs: 4}, 2, 4},
		"no GPU where a node has none":         {"mixed", Options{GPUs: -1}, 2, 0},
		"one where all nodes are this machine": {"batch", Options{GPUs: -1, OneNode: true}, 1, 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			nodes, gpus := size(*partition(inventory(), tc.partition), tc.options)
			assert.Equal(t, tc.nodes, nodes)
			assert.Equal(t, tc.gpus, gpus)
		})
	}
}

func TestVersions(t *testing.T) {
	for name, want := range map[string]doctor.Status{
		"slurm 22.05.8": doctor.OK, "slurm 25.11.1": doctor.OK, "slurm 20.11.9": doctor.Warn, "flux 0.66.0": doctor.OK, "local": doctor.OK,
	} {
		assert.Equal(t, want, judgeVersion(name).Status, name)
	}
}

func TestPortsAndCertificates(t *testing.T) {
	p := Port{Address: "192.0.2.1", Port: 10250, CertFile: "/cert"}
	assert.Equal(t, doctor.OK, judgePort(p, nil).Status)
	assert.Equal(t, doctor.Info, judgePort(p, syscall.EADDRINUSE).Status)
	assert.Equal(t, doctor.Fail, judgePort(p, syscall.EADDRNOTAVAIL).Status)
	assert.Equal(t, doctor.Fail, judgePort(p, errors.New("permission denied")).Status)
	now := time.Now()
	assert.Equal(t, doctor.OK, judgeCertificates(p, certificates{ends: now.AddDate(1, 0, 0)}, now).Status)
	assert.Equal(t, doctor.Warn, judgeCertificates(p, certificates{ends: now.AddDate(0, 0, 3)}, now).Status)
	assert.Equal(t, doctor.Fail, judgeCertificates(p, certificates{ends: now.AddDate(0, 0, -3)}, now).Status)
	assert.Equal(t, doctor.Fail, judgeCertificates(p, certificates{err: errors.New("no such file")}, now).Status)
	assert.Equal(t, doctor.Info, judgeCertificates(p, certificates{signed: true}, now).Status)
	assert.Equal(t, doctor.OK, judgeCertificates(p, certificates{signed: true, ends: now.AddDate(0, 1, 0)}, now).Status, "nobody need approve what was signed")
	assert.Equal(t, doctor.Info, judgeCertificates(p, certificates{signed: true, ends: now.AddDate(0, 0, -3)}, now).Status)
	p.CertDir = "/pki"
	assert.Equal(t, doctor.OK, judgeCertDir(p, nil).Status)
	line := judgeCertDir(p, syscall.EACCES)
	assert.Equal(t, doctor.Fail, line.Status)
	assert.Contains(t, line.Message, "kubelet.certDir /pki cannot be written as ")
}

func ok(node string) doctor.Report {
	held := true
	return doctor.Report{Node: node, Findings: []doctor.Finding{doctor.Good(doctor.CheckSpool, doctor.OK, "fine")}, LockHeld: &held}
}

func hello(node string) doctor.Hello {
	return doctor.Hello{Status: spool.Status{Agent: spool.Agent{Node: node, Address: "10.0.0.1", SSHPort: 7}}}
}

func TestJobs(t *testing.T) {
	both := func() facts {
		one := ok("a")
		one.Claimed, one.LockHeld = true, nil
		return facts{
			who: "user ada", id: "7", agent: "/opt/gangline-agent", dir: "/spool/gangs/x", tasks: 2, job: wlm.Job{State: "RUNNING", Nodes: "[a-b]"},
			hellos:  map[int]doctor.Hello{0: hello("a"), 1: hello("b")},
			calls:   map[int]called{0: {}, 1: {}},
			reports: map[int]doctor.Report{0: one, 1: ok("b")},
		}
	}
	none := func(state, log string) facts {
		f := both()
		f.hellos, f.calls, f.reports, f.log, f.job.State = nil, nil, nil, log, state
		return f
	}
	for sentence, tc := range map[string]struct {
		facts   func() facts
		trouble string
		want    doctor.Status // the worst
		says    string
	}{
		"all is well": {both, "", doctor.OK, "all its 2 nodes"},
		"it waits": {func() facts {
			f := none("PENDING", "")
			f.job.Reason, f.job.Explanation = "Priority", "others are before it"
			return f
		}, "queued", doctor.Fail, "PENDING (Priority): others are before it"},
		"it was interrupted":       {func() facts { return none("RUNNING", "") }, "interrupted", doctor.Info, "told to end"},
		"the agent is not there":   {func() facts { return none("FAILED", "launch.sh: 2: exec: /opt/gangline-agent: not found") }, "ended", doctor.Fail, "/opt/gangline-agent cannot be run there"},
		"the spool is not there":   {func() facts { return none("FAILED", "") }, "ended", doctor.Fail, "without a word"},
		"it broke in another way":  {func() facts { return none("FAILED", "a\nsrun: error: no credential") }, "ended", doctor.Fail, "srun: error: no credential"},
		"a node has not reported":  {func() facts { f := both(); delete(f.reports, 1); return f }, "silent", doctor.Fail, "1 of 2 nodes have reported"},
		"a node cannot be reached": {func() facts { f := both(); f.calls[1] = called{err: errors.New("no route")}; return f }, "", doctor.Fail, "10.0.0.1:7 cannot be reached: no route"},
		"a node said no address":   {func() facts { f := both(); delete(f.calls, 1); return f }, "", doctor.Warn, "could not be compared"},
		"two got the claim": {func() facts {
			f := both()
			r := f.reports[1]
			r.Claimed = true
			f.reports[1] = r
			return f
		}, "", doctor.Fail, "taken by 2: a, b"},
		"a lock does not hold": {func() facts {
			f, held := both(), false
			r := f.reports[1]
			r.LockHeld = &held
			f.reports[1] = r
			return f
		}, "", doctor.Warn, "does not hold on b"},
	} {
		t.Run(sentence, func(t *testing.T) {
			rank := []doctor.Status{doctor.OK, doctor.Info, doctor.Warn, doctor.Fail}
			worst, text := 0, ""
			for _, l := range judgeJob(tc.facts(), tc.trouble) {
				worst = max(worst, slices.Index(rank, l.Status))
				text += l.Message + "\n"
				if l.Status == doctor.Warn || l.Status == doctor.Fail {
					assert.NotEmpty(t, l.Cure)
				}
			}
			assert.Equal(t, tc.want, rank[worst], text)
			assert.Contains(t, text, tc.says)
		})
	}
}

// fakeAPI allows what is not in it.
type fakeAPI struct {
	missing []string
	err     error
}

func (f fakeAPI) Hello(context.Context) (string, doctor.Clock, error) {
	return "v1.37.2", doctor.Clock{}, f.err
}
func (f fakeAPI) Allowed(_ context.Context, r Right) (bool, error) {
	return !slices.Contains(f.missing, r.String()), nil
}

func TestRights(t *testing.T) {
	rights := Rights("gangline-system", true)
	text := func(lines []Line) string {
		var b strings.Builder
		require.NoError(t, Report{lines}.Text(&b))
		return b.String()
	}
	assert.Contains(t, text(checkAPI(t.Context(), fakeAPI{}, rights)), "ok    API server, rights: all")
	assert.Contains(t, text(checkAPI(t.Context(), fakeAPI{missing: []string{"patch pods/status", "create secrets in gangline-system"}}, rights)),
		"are missing: patch pods/status, create secrets in gangline-system")
	assert.Contains(t, text(checkAPI(t.Context(), fakeAPI{err: errors.New("connection refused")}, rights)), "fail  API server, reachability: connection refused")
}

// What is asked for is what the manifests give, and no less.
func TestTheManifestGivesTheRights(t *testing.T) {
	for manifest, rights := range map[string][]Right{
		"rbac.yaml": Rights("gangline-system", true), "provisioner.yaml": ProvisionerRights(),
	} {
		var asked []string
		for _, r := range rights {
			asked = append(asked, r.String())
		}
		assert.ElementsMatch(t, given(t, manifest), asked, manifest)
	}
}

// given are the rights that a manifest of the node's gives.
func given(t *testing.T, manifest string) []string {
	t.Helper()
	data, err := os.ReadFile("../../charts/manifests/node/" + manifest)
	require.NoError(t, err)
	var given []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		for _, r := range role.Rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						name, sub, _ := strings.Cut(resource, "/")
						given = append(given, Right{Verb: verb, Group: group, Resource: name, Subresource: sub, Namespace: role.Namespace}.String())
					}
				}
			}
		}
	}
	return given
}

func TestReports(t *testing.T) {
	r := Report{merge([]Line{
		good("hpc1", "kernel", doctor.Info, "Linux"), bad("hpc1", "spool", doctor.Fail, "mount it", "not\x1b[31m there"),
		good("hpc2", "kernel", doctor.Info, "Linux"),
	})}
	assert.True(t, r.Failed())
	var b strings.Builder
	require.NoError(t, r.Text(&b))
	assert.Equal(t, "info  hpc1, hpc2, kernel: Linux\nfail  hpc1, spool: not [31m there\n      cure: mount it\n0 ok, 1 for information, 0 warnings, 1 failures\n", b.String())
	b.Reset()
	require.NoError(t, r.JSON(&b))
	assert.Contains(t, b.String(), `"where": "hpc1, hpc2"`)
}

func TestADirectoryThatCanBeMadeIsNotMade(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Writable(dir))
	require.NoError(t, Writable(filepath.Join(dir, "a", "b")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorIs(t, Writable(file), syscall.ENOTDIR)
	require.ErrorIs(t, Writable(filepath.Join(file, "a")), syscall.ENOTDIR)
}

func TestWhoChecks(t *testing.T) {
	for sentence, tc := range map[string]struct {
		self Self
		want doctor.Status
		says string
	}{
		"an ordinary user":          {Self{Name: "ada", UID: 7, Ordinary: true}, doctor.Info, "all is checked as ada (uid 7)"},
		"root for the jobs' user":   {Self{Name: "root", Ordinary: true}, doctor.Fail, "preflight runs as root"},
		"another than root, setuid": {Self{Name: "ada", UID: 7, Root: true}, doctor.Fail, "cannot act for others"},
		"root, setuid":              {Self{Name: "root", Root: true}, doctor.Info, "root (uid 0)"},
		"by sudo or ssh":            {Self{Name: "ada", UID: 7}, doctor.Info, "as whom gangline-node is to run"},
	} {
		t.Run(sentence, func(t *testing.T) {
			line := judgeSelf(tc.self)
			assert.Equal(t, tc.want, line.Status)
			assert.Contains(t, line.Message, tc.says)
		})
	}
}
