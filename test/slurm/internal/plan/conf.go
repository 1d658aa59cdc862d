package plan

import (
	"fmt"
	"os"
	"strings"
)

// The head's part of slurm.conf. Why the less obvious settings are as they are:
// cred_expire=5 lets a requeued job start after 6 s instead of 121 s;
// ReturnToService=2 brings a restarted node back by itself; KillWait and
// SlurmdTimeout are short so that tests do not wait for them; MessageTimeout=5 brings the
// time from a crash to NODE_FAIL from 31 s to 18 s; JobAcctGatherFrequency is Slurm's
// default, since each step reads all processes of the machine then, which is all nodes here.
const slurmConf = `ClusterName=%[1]s
SlurmctldHost=head(%[2]s)
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[3]s,cred_expire=5
%[11]sCredType=cred/munge
StateSaveLocation=%[4]s
SlurmdSpoolDir=%[5]s/%%n
SlurmctldPidFile=%[6]s/slurmctld.pid
SlurmdPidFile=%[6]s/slurmd.%%n.pid
SlurmctldLogFile=%[7]s/slurmctld.log
SlurmdLogFile=%[7]s/slurmd.%%n.log
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=256
ProctrackType=%[8]s
TaskPlugin=%[9]s
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=30
JobCompType=jobcomp/filetxt
JobCompLoc=%[7]s/jobcomp.log
%[10]sGresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_yield_interval=1000000,bf_continue
PriorityType=priority/basic
MaxJobCount=50000
MaxArraySize=20001
MinJobAge=%[12]d
SlurmdTimeout=10
SlurmctldTimeout=10
KillWait=3
InactiveLimit=0
CompleteWait=0
MessageTimeout=5
TCPTimeout=2
RequeueExit=99
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
`

// SlurmConfText is slurm.conf.
func (p Plan) SlurmConfText() string {
	track, task := "proctrack/linuxproc", "task/none"
	if p.Cgroup {
		track, task = "proctrack/cgroup", "task/cgroup"
	}
	var b strings.Builder
	accounting, tokens := "AccountingStorageType=accounting_storage/none\n", ""
	if p.Accounting {
		accounting = fmt.Sprintf("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=%s\n"+
			"AccountingStoragePass=%s\nAccountingStorageTRES=gres/gpu\n", p.HeadAddr(), p.MungeSocket())
	}
	if p.REST {
		tokens = fmt.Sprintf("AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=%s\n", p.JWTKey())
	}
	fmt.Fprintf(&b, slurmConf, p.Name, p.HeadAddr(), p.MungeSocket(), p.StateDir(), p.SpoolDir(), p.PIDDir(),
		p.LogDir(), track, task, accounting, tokens, p.MinJobAge)
	nodes := p.NodePrefix + numbers(1, p.Nodes)
	addrs := fmt.Sprintf("10.77.%d.%s", p.Subnet, numbers(firstNodeHost, firstNodeHost+p.Nodes-1))
	fmt.Fprintf(&b, "NodeName=%s NodeAddr=%s CPUs=%d RealMemory=%d", nodes, addrs, p.CPUs, p.MemoryMB)
	if p.GPUs > 0 {
		fmt.Fprintf(&b, " Gres=gpu:h100:%d", p.GPUs)
	}
	b.WriteString(" State=UNKNOWN\n")
	fmt.Fprintf(&b, "PartitionName=batch Nodes=%s Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=10\n", nodes)
	fmt.Fprintf(&b, "PartitionName=high Nodes=%s MaxTime=INFINITE State=UP PriorityTier=20 PreemptMode=OFF\n", nodes)
	fmt.Fprintf(&b, "PartitionName=low Nodes=%s MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE\n", nodes)
	fmt.Fprintf(&b, "PartitionName=lowc Nodes=%s MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL\n", nodes)
	return b.String()
}

// numbers is a range as Slurm's host lists write it.
func numbers(first, last int) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("[%d-%d]", first, last)
}

// SlurmdbdConfText is slurmdbd.conf. The database lets slurmdbd in because of the
// user that it runs as, so there is no password.
func (p Plan) SlurmdbdConfText() string {
	return fmt.Sprintf(`DbdHost=%s
DbdAddr=%s
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket=%s
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
LogFile=%s
PidFile=%s
`, Head, p.HeadAddr(), p.MungeSocket(), p.LogFile("slurmdbd.log"), p.path("pid", "slurmdbd.pid"))
}

// GresConfText is gres.conf. Slurm sets CUDA_VISIBLE_DEVICES only for GPUs that
// have device files.
func (p Plan) GresConfText() string {
	if p.GPUs == 0 {
		return ""
	}
	return fmt.Sprintf("Name=gpu Type=h100 File=%s\n", p.path("dev", "nvidia"+numbers(0, p.GPUs-1)))
}

// CgroupConfText is cgroup.conf. Cores are not constrained: nodes have more CPUs
// than the machine. Devices are not constrained: the fake GPUs are one device.
const CgroupConfText = `CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainDevices=no
`

// HostsText is /etc/hosts of the head and the nodes.
func (p Plan) HostsText() string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	fmt.Fprintf(&b, "%s %s\n", p.HeadAddr(), Head)
	fmt.Fprintf(&b, "%s outside\n", p.RootAddr())
	for i := 1; i <= p.Nodes; i++ {
		fmt.Fprintf(&b, "%s %s\n", p.NodeAddr(i), p.NodeName(i))
	}
	return b.String()
}

// ResolvText names a resolver that refuses at once: a server that cannot be
// reached would make every look-up wait.
const ResolvText = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"

// WriteConfig writes all configuration files.
func (p Plan) WriteConfig() error {
	files := map[string]string{
		p.SlurmConf():            p.SlurmConfText(),
		p.EtcFile("gres.conf"):   p.GresConfText(),
		p.EtcFile("cgroup.conf"): CgroupConfText,
		p.HostsFile():            p.HostsText(),
		p.ResolvFile():           ResolvText,
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
	}
	return nil
}
