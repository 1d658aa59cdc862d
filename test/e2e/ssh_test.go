package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// TestSSH is what launchers and people do by SSH in a gang, and from outside.
func TestSSH(t *testing.T) {
	t.Parallel()
	env := environment(t, "ssh", "slurm", 3, nil)
	runAll(t, env, map[string]func(*world){
		"OpenSSH's own programs reach the pods by every name":    openSSHInPod,
		"64 sessions at once, and on one connection":             manySessions,
		"pdsh, pdcp and localhost, as they come":                 plainPDSH,
		"ports are forwarded within the gang":                    forwardedPorts,
		"DeepSpeed's launcher, by pdsh":                          deepSpeedByPDSH,
		"Kubeflow's own MPI runtime, as it is":                   kubeflowRuntime,
		"sshd workers that share a node":                         sshdSharesNode,
		"sshd behind a shell":                                    sshdInShell,
		"a launcher outside of the HPC side reaches the workers": hybrid,
	})
}

// idle is a worker that only waits.
const idle = `trap 'exit 0' TERM; sleep 600 & wait`

// pair is a JobSet of a launcher that runs a script and of workers that wait.
func (w *world) pair(name, script string, workers int32) *jobset.JobSet {
	js := makeJobSet(name,
		w.replicated("launcher", script, 1, resources("500m", "0")),
		w.replicated("worker", idle, workers, resources("1", "0")),
	)
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	return js
}

// launcherLog runs the JobSet to its end and returns what the launcher said.
func (w *world) launcherLog(js *jobset.JobSet) string {
	w.Helper()
	w.create(js)
	w.waitJobSet(js.Name, jobset.JobSetCompleted)
	launchers := w.pods(jobset.ReplicatedJobNameKey, "launcher")
	require.Len(w, launchers, 1)
	return w.must("logs", launchers[0].Name)
}

func openSSHInPod(w *world) {
	name := "open-worker-0-1.open." + w.namespace
	forms := []string{"open-worker-0-1", "open-worker-0-1.open", name, name + ".svc", name + ".svc.cluster.local"}
	log := w.launcherLog(w.pair("open", fmt.Sprintf(`
for ssh in ssh /usr/bin/ssh "/usr/bin/ssh -F $GANGLINE_SSH_CONFIG"; do
  for name in %s; do echo "$name is $($ssh $name 'echo $(hostname) $GANGLINE_RANK')"; done
done
host=open-worker-0-1
echo "hop $(/usr/bin/ssh $host '/usr/bin/ssh open-worker-0-0 ssh open-worker-0-1 hostname')"
ssh $host 'kill -9 $$$$'; echo "status $?"
/usr/bin/ssh $host 'exit 7'; echo "status $?"
COLOUR=blue /usr/bin/ssh -o SendEnv=COLOUR $host 'echo colour $COLOUR'
head -c 5000000 /dev/zero | /usr/bin/ssh $host cat | wc -c
/usr/bin/ssh -tt $host 'stty size; test -t 0 && echo terminal' </dev/null | tr -d '\r'

cd $(mktemp -d -p $HOME)
head -c 3000000 /dev/urandom >data
for flags in "-q" "-q -O"; do
  scp $flags data $host:$PWD/there && scp $flags $host:$PWD/there back && cmp data back && echo "copied $flags" && rm back there
done
printf 'ls /etc/mpi\nput data /run/gangline/x\n' | sftp -q $host 2>&1 | grep -v sftp
rm -rf "$PWD"

# What is refused.
ssh stranger.example true
port=$(awk '/Port/ {print $2; exit}' $GANGLINE_SSH_CONFIG)
address=$(awk '/HostName/ {print $2; exit}' $GANGLINE_SSH_CONFIG)
none="-F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -p $port"
/usr/bin/ssh $none $address true
/usr/bin/ssh -A -X $host 'echo agent ${SSH_AUTH_SOCK-none} display ${DISPLAY-none}'
/usr/bin/ssh -o ExitOnForwardFailure=yes -R 45999:localhost:1 $host true
true
`, strings.Join(forms, " ")), 2))
	for _, form := range forms {
		assert.Equal(w, 3, strings.Count(log, form+" is open-worker-0-1 2\n"), "%s in %s", form, log)
	}
	for _, want := range []string{
		"hop open-worker-0-1\n", "status 137\n", "status 7\n", "colour blue\n", "5000000\n", "0 0\nterminal\n", "copied -q\n", "copied -q -O\n",
		"/etc/mpi/hostfile", "Permission denied (publickey)", "agent none display none\n", "remote port forwarding failed", "stranger.example",
	} {
		assert.Contains(w, log, want)
	}
}

func manySessions(w *world) {
	log := w.launcherLog(w.pair("many", `
cd $(mktemp -d)
for i in $(seq 64); do ssh -n many-worker-0-0 "echo session $i; exit $i" >out.$i & eval "pid$i=$!"; done
good=0
for i in $(seq 64); do
  eval "wait \$pid$i"
  [ $? = $i ] && [ "$(cat out.$i)" = "session $i" ] && good=$((good+1))
done
echo "$good of 64"
/usr/bin/ssh -o ControlPath=$PWD/mux -M -N -f many-worker-0-0
for i in $(seq 64); do /usr/bin/ssh -n -o ControlPath=$PWD/mux many-worker-0-0 "echo session $i; exit $i" >out.$i 2>err.$i & eval "pid$i=$!"; done
good=0
for i in $(seq 64); do
  eval "wait \$pid$i"
  [ $? = $i ] && [ "$(cat out.$i)" = "session $i" ] && good=$((good+1))
done
cat err.* | head -3
echo "$good of 64 on one connection"
/usr/bin/ssh -o ControlPath=$PWD/mux -O exit many-worker-0-0 2>/dev/null
rm -rf "$PWD"
`, 1))
	assert.Contains(w, log, "64 of 64\n")
	assert.Contains(w, log, "64 of 64 on one connection\n")
}

func forwardedPorts(w *world) {
	serve := `
import socket
s = socket.create_server(("0.0.0.0", 0)); print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"hello\n"); c.close()
`
	log := w.launcherLog(w.pair("ports", fmt.Sprintf(`
cd $(mktemp -d)
cat >serve.py <<'E'
%s
E
ssh -n ports-worker-0-1 "exec python3 -c '$(cat serve.py)'" >port & server=$!
while ! [ -s port ]; do sleep 0.1; done
port=$(cat port)
echo "own $(ssh -W localhost:$port ports-worker-0-1 </dev/null)"
echo "gang $(/usr/bin/ssh -W ports-worker-0-1.ports:$port ports-worker-0-0 </dev/null)"
echo "jump $(/usr/bin/ssh -J ports-worker-0-0 ports-worker-0-1 hostname)"
/usr/bin/ssh -W 192.0.2.1:22 ports-worker-0-0 2>&1 </dev/null | tail -2
kill $server
rm -rf "$PWD"
`, serve), 2))
	for _, want := range []string{"own hello\n", "gang hello\n", "jump ports-worker-0-1\n", "administratively prohibited"} {
		assert.Contains(w, log, want)
	}
}

func plainPDSH(w *world) {
	log := w.launcherLog(w.pair("plain", `
cd $(mktemp -d)
pdsh -w plain-worker-0-[0-1] hostname | sort
printf 'plain-worker-0-1\n' >hosts
WCOLL=$PWD/hosts pdsh 'echo "from a file: $(hostname)"'
pdsh -S -w plain-worker-0-0 'exit 5'; echo "status $?"
echo data >file
pdcp -w plain-worker-0-1 file /tmp/file-of-$GANGLINE_CONTAINER && ssh plain-worker-0-1 "cat /tmp/file-of-$GANGLINE_CONTAINER; rm /tmp/file-of-$GANGLINE_CONTAINER"
for host in localhost 127.0.0.1; do ssh $host 'echo "'$host' is $(hostname)"'; done
rm -rf "$PWD"
`, 2))
	for _, want := range []string{
		"plain-worker-0-0: plain-worker-0-0\n", "plain-worker-0-1: plain-worker-0-1\n", "from a file: plain-worker-0-1\n", "status 5\n", "data\n",
		"localhost is plain-launcher-0-0\n", "127.0.0.1 is plain-launcher-0-0\n",
	} {
		assert.Contains(w, log, want)
	}
}

// deepSpeedByPDSH does what DeepSpeed's own launcher does (deepspeed/launcher:
// runner.py, multinode_runner.py, launch.py): it reads the hostfile, asks the first
// host for its address, collects what is to be exported, and has pdsh start a
// program on each node that starts the ranks.
func deepSpeedByPDSH(w *world) {
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "deepspeed"}, Data: map[string]string{
		"runner.py": `
import base64, json, os, re, shlex, subprocess, sys
hosts = {}
for line in open("/etc/mpi/hostfile"):
    host, slots = re.match(r"(\S+) slots=(\d+)$", line).groups()
    hosts[host] = list(range(int(slots)))
first = next(iter(hosts))
subprocess.check_call(["ssh", "-o", "PasswordAuthentication=no", first, "hostname"], stdout=subprocess.DEVNULL)
master = subprocess.check_output(["ssh", first, "hostname -I"], text=True).split()[0]
exports = {k: v for k, v in os.environ.items() if k.startswith("PYTHON")}
name = os.environ.get("DS_ENV_FILE", ".deepspeed_env")
for place in os.path.expanduser("~"), ".":
    path = os.path.join(place, name)
    if os.path.isfile(path):
        exports |= dict(line.rstrip("\n").split("=", 1) for line in open(path))
world = base64.urlsafe_b64encode(json.dumps(hosts).encode()).decode()
command = ["pdsh", "-S", "-f", "1024", "-w", ",".join(hosts)]
command += ["".join(f"export {k}={shlex.quote(v)}; " for k, v in exports.items()), f"cd {os.path.abspath('.')};"]
command += [sys.executable, "-u", "-m", "launch", f"--world_info={world}", "--node_rank=%n", f"--master_addr={master}", "--master_port=29500"]
command += sys.argv[1:]
sys.exit(subprocess.run(command, env=os.environ | {"PDSH_RCMD_TYPE": "ssh"}).returncode)
`,
		"launch.py": `
import argparse, base64, json, os, subprocess, sys
p = argparse.ArgumentParser()
for name, kind in ("world_info", str), ("node_rank", int), ("master_addr", str), ("master_port", int):
    p.add_argument("--" + name, type=kind)
p.add_argument("program", nargs=argparse.REMAINDER)
a = p.parse_args()
world = json.loads(base64.urlsafe_b64decode(a.world_info))
before = sum(len(slots) for slots in list(world.values())[:a.node_rank])
ranks = []
for local, _ in enumerate(list(world.values())[a.node_rank]):
    env = os.environ | {"RANK": str(before + local), "LOCAL_RANK": str(local), "WORLD_SIZE": str(sum(map(len, world.values()))),
                        "MASTER_ADDR": a.master_addr, "MASTER_PORT": str(a.master_port)}
    ranks.append(subprocess.Popen([sys.executable, "-u"] + a.program, env=env))
sys.exit(max(abs(r.wait()) for r in ranks))
`,
		"train.py": `
import os, socket, time
def say(text):
    os.write(1, (text + "\n").encode()) # in one piece: ranks share the pipe
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
say(f"rank {rank} of {size} in {socket.gethostname()} says {os.environ['GREETING']} and {os.environ['PYTHONGREETING']}")
if rank == 0:
    with socket.create_server(at) as server:
        peers = [server.accept()[0] for _ in range(size - 1)]
    total = sum(int(p.makefile().readline()) for p in peers)
    for p in peers:
        p.sendall(b"%d\n" % total)
else:
    while True:
        try:
            peer = socket.create_connection(at)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    peer.sendall(b"%d\n" % rank)
    total = int(peer.makefile().readline())
assert total == size * (size - 1) // 2, total
say(f"rank {rank} has the sum {total}")
raise SystemExit(5 if os.environ["GREETING"] == "go on strike" and rank == size - 1 else 0)
`,
	}})
	w.train("ds", `
runtimeRef: {name: deepspeed-distributed-hpc}
trainer:
  numNodes: 3
  numProcPerNode: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -ec]
  args:
  - |
    cd $(mktemp -d -p $HOME); trap 'rm -rf "$PWD"' EXIT
    cp /src/*.py .
    export PYTHONGREETING="it's fine"
    echo 'GREETING=hello $HOME; world' >.deepspeed_env
    python3 runner.py train.py
    echo 'GREETING=go on strike' >other_env
    export DS_ENV_FILE=other_env
    code=0; python3 runner.py train.py || code=$?
    echo "pdsh's exit code $code"
runtimePatches:
- manager: gangline.dev/test
  trainingRuntimeSpec:
    template:
      spec:
        replicatedJobs:
        - name: launcher
          template: {spec: {template: {spec: {volumes: [{name: source, configMap: {name: deepspeed}}], containers: [{name: node, volumeMounts: [{name: source, mountPath: /src}]}]}}}}
`)
	w.waitTrainJob("ds", v1alpha1.TrainJobComplete)
	log := w.jobLogs("ds", "launcher")
	for rank, pod := range []string{"ds-node-0-0", "ds-node-0-0", "ds-node-0-1", "ds-node-0-1", "ds-launcher-0-0", "ds-launcher-0-0"} {
		assert.Contains(w, log, fmt.Sprintf("rank %d of 6 in %s says hello $HOME; world and it's fine\n", rank, pod))
		assert.Equal(w, 2, strings.Count(log, fmt.Sprintf("rank %d has the sum 15\n", rank)), "rank %d in %s", rank, log)
	}
	assert.Contains(w, log, "pdsh's exit code 5\n")
}
