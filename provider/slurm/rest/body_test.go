package rest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
)

func request(change ...func(*translate.Request)) translate.Request {
	r := translate.Request{
		Name:    "pi-1",
		Comment: "JobSet default/pi",
		Groups:  []translate.TaskGroup{{Tasks: 4, Resources: translate.Resources{CPUs: 2}}},
		Agent:   "/opt/gangline/gangline-agent",
		Dir:     "/spool/gangs/pi-1",
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

// everything asks for all that can be asked for.
func everything(r *translate.Request) {
	r.Groups[0].Resources = translate.Resources{CPUs: 3, MemoryMiB: 1000, GPUs: 2}
	r.Wishes = translate.Wishes{
		Partition: "gpu", Account: "chem 1", QOS: "high --uid=0", Constraint: "h100&(ib|roce)",
		Reservation: "school", TimeLimit: 90*time.Minute + time.Second,
	}
}

func heterogeneous(r *translate.Request) {
	r.Groups = []translate.TaskGroup{
		{Tasks: 1, Resources: translate.Resources{CPUs: 1, MemoryMiB: 512}},
		{Tasks: 3, Resources: translate.Resources{CPUs: 4, MemoryMiB: 8192, GPUs: 4}},
	}
}

func exclusive(r *translate.Request) { r.Exclusive, r.Groups[0].MemoryMiB = true, 4096 }

func TestSubmissionBodies(t *testing.T) {
	base := []string{"PATH=/usr/bin", "USER=ada", "LANG=C"}
	for name, change := range map[string]func(*translate.Request){
		"everything": everything, "heterogeneous": heterogeneous, "exclusive": exclusive,
		"percent": func(r *translate.Request) { r.Dir = "/spool/100%j/pi-1" },
	} {
		for _, version := range []string{"v0.0.38", "v0.0.39", "v0.0.45"} {
			t.Run(name+" "+version, func(t *testing.T) {
				v, known := findVersion(version)
				require.True(t, known)
				content, err := v.body(orderOf(t, request(change)), base)
				require.NoError(t, err)
				body, err := json.MarshalIndent(content, "", "  ")
				require.NoError(t, err)
				golden.Equal(t, "testdata/submit-"+name+"-"+version+".golden", string(body)+"\n")
			})
		}
	}
}

func orderOf(t *testing.T, r translate.Request) order {
	t.Helper()
	args, err := translate.SbatchArgs(r, r.Dir+"/launch.sh")
	require.NoError(t, err)
	o, err := parseOrder(args)
	require.NoError(t, err)
	return o
}

func TestWhatSbatchIsAskedForIsAskedForHereTooOrRefused(t *testing.T) {
	for _, v := range versions() {
		for name, change := range map[string]func(*translate.Request){
			"nothing": func(*translate.Request) {}, "everything": everything, "heterogeneous": heterogeneous, "exclusive": exclusive,
		} {
			_, err := v.body(orderOf(t, request(change)), nil)
			assert.NoError(t, err, "%s in %s", name, v.name)
		}
		for option, says := range map[string]string{
			"levitate": "--levitate", "gres": "", "licenses": "", "open-mode": "",
		} {
			o := order{components: []map[string]string{{option: ""}}}
			_, err := v.body(o, nil)
			if says == "" {
				assert.NoError(t, err, option)
			} else {
				assert.ErrorContains(t, err, says)
			}
		}
		for option, value := range map[string]string{"open-mode": "truncate", "exclusive": "user", "time": "1-00:00", "ntasks": "many", "mem": "1G"} {
			_, err := v.body(order{components: []map[string]string{{option: value}}}, nil)
			assert.ErrorContains(t, err, "--"+option+"="+value, v.name)
		}
	}
	for name, args := range map[string][]string{
		"too short":      {"a", "b"},
		"a short option": {"-L", "matlab", "/launch.sh", "/agent", "/dir"},
		"no option":      {"stray", "/launch.sh", "/agent", "/dir"},
	} {
		_, err := parseOrder(args)
		assert.Error(t, err, name)
	}
}

func TestOptionsAreWrittenAsEachVersionWantsThem(t *testing.T) {
	const number = `{"infinite":false,"number":%s,"set":true}`
	wrapped := func(n string) string { return strings.Replace(number, "%s", n, 1) }
	tests := map[string]map[string]string{ // option → version → fields
		"gpus-per-task=h100:2": {
			"v0.0.38": `"gpus_per_task":"h100:2"`, "v0.0.39": `"tres_per_task":"gres:gpu:h100:2"`, "v0.0.43": `"tres_per_task":"gres/gpu:h100:2"`,
		},
		"gres=gpu:h100:4,nic:1": {
			"v0.0.38": `"gres":"gpu:h100:4,nic:1"`, "v0.0.39": `"tres_per_node":"gres:gpu:h100:4,gres:nic:1"`,
			"v0.0.43": `"tres_per_node":"gres/gpu:h100:4,gres/nic:1"`,
		},
		"switches=2@90":     {"v0.0.38": "", "v0.0.39": `"required_switches":` + wrapped("2") + `,"wait_for_switch":5400`},
		"switches=1":        {"v0.0.45": `"required_switches":` + wrapped("1")},
		"nodes=2-4":         {"v0.0.38": `"nodes":"2-4"`, "v0.0.45": `"nodes":"2-4"`},
		"nice=100":          {"v0.0.38": `"nice":100`, "v0.0.45": `"nice":100`},
		"licenses=matlab:2": {"v0.0.38": `"licenses":"matlab:2"`, "v0.0.45": `"licenses":"matlab:2"`},
		"ntasks-per-node=1": {"v0.0.38": `"tasks_per_node":1`, "v0.0.45": `"tasks_per_node":1`},
		"signal=B:TERM@300": {
			"v0.0.38": `"signal":"B:TERM@300"`,
			"v0.0.45": `"kill_warning_delay":` + wrapped("300") + `,"kill_warning_flags":["BATCH_JOB"],"kill_warning_signal":"TERM"`,
		},
		"signal=R:TERM@300":  {"v0.0.45": ""},
		"hint=nomultithread": {"v0.0.38": `"threads_per_core":1`, "v0.0.45": ""},
		"hint=compute_bound": {"v0.0.38": ""},
		"spread-job":         {"v0.0.38": `"spread_job":true`, "v0.0.45": ""},
		"mincpus=4":          {"v0.0.38": `"minimum_cpus_per_node":4`},
		"delay-boot=1:00":    {"v0.0.38": ""},
		"batch=x":            {"v0.0.38": "", "v0.0.45": ""}, // slurmrestd would die of it
		"contiguous":         {"v0.0.38": "", "v0.0.45": ""},
	}
	for option, fields := range tests {
		name, value, _ := strings.Cut(option, "=")
		for version, want := range fields {
			t.Run(option+" "+version, func(t *testing.T) {
				v, _ := findVersion(version)
				job, err := v.job(map[string]string{name: value}, nil, nil)
				if want == "" {
					assert.ErrorContains(t, err, "--"+name)
					return
				}
				require.NoError(t, err)
				delete(job, "environment")
				got, err := json.Marshal(job)
				require.NoError(t, err)
				assert.Equal(t, "{"+want+"}", string(got))
			})
		}
	}
}

func TestTheNewestVersionThatBothKnowIsSpoken(t *testing.T) {
	tests := map[string]struct {
		paths string
		want  string
	}{
		"Slurm 22.05":               {"/slurm/v0.0.37/jobs /slurm/v0.0.38/jobs /slurmdb/v0.0.38/jobs /openapi", "v0.0.38"},
		"Slurm 24.05":               {"/slurm/v0.0.39/jobs/ /slurm/v0.0.40/jobs/ /slurm/v0.0.41/jobs/ /slurmdb/v0.0.41/jobs/", "v0.0.41"},
		"one that is newer than us": {"/slurm/v0.0.44/jobs/ /slurm/v0.0.45/jobs/ /slurm/v0.0.99/jobs/", "v0.0.45"},
		"ten comes after nine":      {"/slurm/v0.0.40/jobs/ /slurm/v0.0.39/jobs/", "v0.0.40"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := newestOf(strings.Fields(tt.paths))
			require.NoError(t, err)
			assert.Equal(t, tt.want, v.name)
		})
	}
	_, err := newestOf([]string{"/slurm/v0.0.36/jobs/", "/slurmdb/v0.0.45/jobs/"})
	assert.ErrorContains(t, err, "[v0.0.36]")
	assert.ErrorContains(t, err, "v0.0.38 to v0.0.45")
}
