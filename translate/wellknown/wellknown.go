// Package wellknown holds every name that users see: annotations, labels, the
// taint, reasons. Nothing else in the tree spells one of them out.
package wellknown

const (
	// Domain prefixes all names of Gangline's own.
	Domain = "gangline.dev"

	// AnnotationGangName and AnnotationGangSize make one gang of pods that no
	// known owner joins: pods of the same namespace, owner and name.
	AnnotationGangName = Domain + "/gang-name"
	AnnotationGangSize = Domain + "/gang-size"

	// The allocation's wishes, on a pod or its JobSet; the pod's wins.
	AnnotationPartition      = Domain + "/partition"
	AnnotationAccount        = Domain + "/account"
	AnnotationQOS            = Domain + "/qos"
	AnnotationTimeLimit      = Domain + "/time-limit"  // a Go duration ("90m"), or Slurm's own form ("1-12:00:00")
	AnnotationConstraint     = Domain + "/constraint"  // features of nodes, Slurm's syntax
	AnnotationReservation    = Domain + "/reservation" // name of a reservation
	AnnotationNodesExclusive = Domain + "/nodes-exclusive"

	AnnotationTimeLimitWarning = Domain + "/time-limit-warning" // how long before the limit the pods are stopped
	AnnotationGPUType          = Domain + "/gpu-type"
	AnnotationLicenses         = Domain + "/licenses"
	AnnotationSwitches         = Domain + "/switches" // count, or count@time
	AnnotationMinNodes         = Domain + "/min-nodes"
	AnnotationMaxNodes         = Domain + "/max-nodes"
	AnnotationNice             = Domain + "/nice"
	AnnotationComment          = Domain + "/comment"
	AnnotationWCKey            = Domain + "/wckey"
	AnnotationDependsOn        = Domain + "/depends-on"   // other gangs of the namespace
	AnnotationSbatchFlags      = Domain + "/sbatch-flags" // those that the site allows

	// Cluster names the HPC cluster that something belongs to: a label of virtual
	// nodes; and, as an annotation or a label of a TrainJob, its runtime or its
	// namespace, the wish to run there.
	Cluster = Domain + "/cluster"

	// PathProvisioner is the provisioner of StorageClasses whose claims become directories
	// of the HPC side, and the CSI driver that their volumes name; no node has it.
	PathProvisioner = "path." + Domain

	// SlurmBridgePrefix is that of slurm-bridge's annotations, which users may
	// have written already; those that make sense here are aliases of ours.
	SlurmBridgePrefix = "slurmjob.slinky.slurm.net/"
	// InterLinkPrefix is that of interLink's: its flags are an alias of ours, the
	// others are ignored with an Event.
	InterLinkPrefix = "slurm-job.vk.io/"

	// AnnotationRides overrides whether a slot rides on slot 0's node
	// ("true") or has resources of its own ("false").
	AnnotationRides = Domain + "/rides"
	// AnnotationMPISlots is the number of MPI slots of a pod in the hostfile;
	// by default its GPUs, or one.
	AnnotationMPISlots = Domain + "/mpi-slots"

	// AnnotationMPILaunch is how mpirun and mpiexec in a pod start their ranks:
	// "ssh", by the MPI's own launcher and the gang's SSH services (the default),
	// or "srun", by the workload manager. AnnotationMPIPMI is the protocol that
	// ranks speak with "srun", as its --mpi has it (pmix, pmi2); by default that
	// of the MPI whose launcher is on PATH. On a pod or its JobSet; the pod's wins.
	AnnotationMPILaunch = Domain + "/mpi-launch"
	AnnotationMPIPMI    = Domain + "/mpi-pmi"

	// ImageHost as a container's image says that there is none: the program is the HPC
	// node's own. (A pod must name an image.)
	ImageHost = "host"

	// AnnotationRuntime is what runs the pod's images: a container runtime that the site
	// offers, or "host". On a pod or its JobSet; the pod's wins.
	AnnotationRuntime = Domain + "/runtime"

	// AnnotationMPIImplementation, on a TrainJob or its runtime, names the MPI that is
	// meant: "OpenMPI", "MPICH" or "Intel". It counts more than the runtime's
	// mpiImplementation, of which Kubeflow Trainer knows OpenMPI only.
	AnnotationMPIImplementation = Domain + "/mpi-implementation"

	// Names by which other projects' owners mark their pods: the MPI operator, …
	LabelTrainingJobName      = "training.kubeflow.org/job-name"
	LabelTrainingJobRole      = "training.kubeflow.org/job-role"
	LabelTrainingReplicaIndex = "training.kubeflow.org/replica-index"
	// … JobSet, with the number of its restarts, …
	LabelRestartAttempt = "jobset.sigs.k8s.io/restart-attempt"
	// … LeaderWorkerSet, …
	LabelLWSName        = "leaderworkerset.sigs.k8s.io/name"
	LabelLWSGroupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	LabelLWSWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	LabelLWSRevision    = "leaderworkerset.sigs.k8s.io/template-revision-hash"
	AnnotationLWSSize   = "leaderworkerset.sigs.k8s.io/size"
	// … and the schedulers: scheduler-plugins and Volcano.
	LabelPodGroup          = "scheduling.x-k8s.io/pod-group"
	AnnotationVolcanoGroup = "scheduling.k8s.io/group-name"

	// What the node writes on a pod it has accepted.
	AnnotationGang       = Domain + "/gang"       // the gang's key
	AnnotationAllocation = Domain + "/allocation" // the allocation's name, also the job's
	AnnotationJobID      = Domain + "/job-id"     // the workload manager's id
	AnnotationHPCUser    = Domain + "/hpc-user"   // whose the gang is on the HPC side, where there are several users
	AnnotationHPCNode    = Domain + "/hpc-node"   // the HPC node the pod runs on; a label too, for kubectl get -L
	// AnnotationSeal is the node's proof that it has accepted the pod as AnnotationHPCUser's,
	// which the pod's author can write as well.
	AnnotationSeal = Domain + "/seal"
	// AnnotationExpectedStart is when the workload manager expects a waiting job to
	// start, to the minute (RFC 3339); absent while it does not know.
	AnnotationExpectedStart = Domain + "/expected-start"
	// AnnotationGangOwner is whose gang the pod is of, as gangline.dev/depends-on has it:
	// "JobSet/pi". AnnotationRank is the pod's place in the gang, from 0, and AnnotationSize
	// the number of places: GANGLINE_RANK and GANGLINE_SIZE of its processes.
	// AnnotationSubmitted is when the job was submitted (RFC 3339). The last three are there
	// when there is a job.
	AnnotationGangOwner = Domain + "/gang-owner"
	AnnotationRank      = Domain + "/rank"
	AnnotationSize      = Domain + "/size"
	AnnotationSubmitted = Domain + "/submitted"

	// Finalizer keeps a pod until nothing of it runs any more.
	Finalizer = Domain + "/allocation"

	// LabelNodeType marks virtual nodes; DaemonSets exclude it.
	LabelNodeType      = "type"
	LabelNodeTypeValue = "virtual-kubelet"
	// LabelPartition and LabelWorkloadManager describe the virtual node.
	LabelPartition       = Domain + "/partition"
	LabelWorkloadManager = Domain + "/workload-manager"

	// What the HPC nodes of a virtual node are like. GPUs of one type give the label
	// nvidia.com/gpu.product (GPUResource and ".product"), those of several a label
	// each with their number.
	LabelGPUPrefix = Domain + "/gpu."
	// LabelFeaturePrefix is that of the features of HPC nodes: FeatureOfAll if each node
	// has it, so that every pod gets one that does, else FeatureOfSome.
	LabelFeaturePrefix = "feature." + Domain + "/"
	FeatureOfAll       = "true"
	FeatureOfSome      = "some"
	// LabelSwitchPrefix is that of leaf switches, with the number of nodes at each.
	LabelSwitchPrefix = "switch." + Domain + "/"

	// TaintKey keeps away pods that did not ask for the HPC side.
	TaintKey = "virtual-kubelet.io/provider"
	// TaintValue is its value.
	TaintValue = "gangline"
	// TaintUnreachable keeps new pods away while the workload manager is silent.
	TaintUnreachable = Domain + "/workload-manager-unreachable"
	// AnnotationNodeTaints, on the virtual node, remembers which taints its
	// configuration has set.
	AnnotationNodeTaints = Domain + "/node-taints"

	// ConditionReachable is the node's condition that tells whether the
	// workload manager answers.
	ConditionReachable = "WorkloadManagerReachable"
)

// Annotations are all of Gangline's own.
func Annotations() []string {
	return []string{
		AnnotationGangName, AnnotationGangSize,
		AnnotationPartition, AnnotationAccount, AnnotationQOS, AnnotationTimeLimit,
		AnnotationConstraint, AnnotationReservation, AnnotationNodesExclusive,
		AnnotationTimeLimitWarning, AnnotationGPUType, AnnotationLicenses, AnnotationSwitches,
		AnnotationMinNodes, AnnotationMaxNodes, AnnotationNice, AnnotationComment, AnnotationWCKey,
		AnnotationDependsOn, AnnotationSbatchFlags,
		AnnotationRides, AnnotationMPISlots, AnnotationMPILaunch, AnnotationMPIPMI, AnnotationMPIImplementation, AnnotationRuntime,
		AnnotationGang, AnnotationAllocation, AnnotationJobID, AnnotationHPCUser, AnnotationSeal, AnnotationHPCNode, AnnotationExpectedStart,
		AnnotationGangOwner, AnnotationRank, AnnotationSize, AnnotationSubmitted,
	}
}

// Wish is an annotation that asks something of the allocation: our name of it and
// another project's, if that has one.
type Wish struct{ Name, Alias string }

// Wishes are all that an allocation can be asked for. An owner may carry them
// for its pods.
func Wishes() []Wish {
	return []Wish{
		{AnnotationPartition, SlurmBridgePrefix + "partition"},
		{AnnotationAccount, SlurmBridgePrefix + "account"},
		{AnnotationQOS, SlurmBridgePrefix + "qos"},
		{AnnotationReservation, SlurmBridgePrefix + "reservation"},
		{AnnotationConstraint, SlurmBridgePrefix + "constraints"},
		{AnnotationTimeLimit, SlurmBridgePrefix + "timelimit"},
		{AnnotationTimeLimitWarning, ""},
		{AnnotationNodesExclusive, SlurmBridgePrefix + "exclusive"},
		{AnnotationGPUType, ""},
		{AnnotationLicenses, SlurmBridgePrefix + "licenses"},
		{AnnotationSwitches, ""},
		{AnnotationMinNodes, SlurmBridgePrefix + "min-nodes"},
		{AnnotationMaxNodes, SlurmBridgePrefix + "max-nodes"},
		{AnnotationNice, ""},
		{AnnotationComment, ""},
		{AnnotationWCKey, SlurmBridgePrefix + "wckey"},
		{AnnotationDependsOn, ""},
		{AnnotationSbatchFlags, InterLinkPrefix + "flags"},
		{AnnotationMPILaunch, ""},
		{AnnotationRuntime, ""},
		{AnnotationMPIPMI, ""},
	}
}

// Reasons that a pod or a container shows while it waits, or why it failed.
const (
	ReasonWaitingForGang   = "WaitingForGang"
	ReasonSubmitting       = "Submitting"
	ReasonQueued           = "Queued"
	ReasonStarting         = "Starting"
	ReasonSubmissionFailed = "SubmissionFailed"
	ReasonOwnerUnreadable  = "OwnerUnreadable"
	// ReasonCancellationFailed: the job that is to end could not be cancelled, and is tried again.
	ReasonCancellationFailed = "CancellationFailed"
	ReasonWaitingForSlot     = "WaitingForSlot"
	ReasonOwnerGone          = "OwnerGone"
	// ReasonWaitingForDependency is that of a gang that waits for another.
	ReasonWaitingForDependency = "WaitingForDependency"
	ReasonConfigError          = "CreateContainerConfigError"
	ReasonContainerCreating    = "ContainerCreating"

	ReasonUnsupported      = "Unsupported" // followed by the feature's name
	ReasonNoCommand        = "NoCommand"
	ReasonUnknownPartition = "UnknownPartition"
	ReasonBadAnnotation    = "BadAnnotation"
	ReasonNotAllowed       = "NotAllowed"      // more than the pod's namespace and ServiceAccount may ask for
	ReasonNoHPCUser        = "NoHPCUser"       // the map of identities has nobody, or somebody else, for the pod
	ReasonSiteUnreachable  = "SiteUnreachable" // nothing can be learnt or done as the gang's user
	ReasonDoesNotFit       = "DoesNotFit"
	ReasonGangTooLarge     = "GangTooLarge" // its owner declares more pods than any gang may have

	// Of Events alone, in the order of an allocation's life.
	ReasonAllocationStarted = "AllocationStarted" // the job has its nodes
	ReasonAllocationOver    = "AllocationOver"    // the job has ended

	// What an agent could not do.
	ReasonPrivateRootUnavailable = "PrivateRootUnavailable" // the pod has mounts that need a private root, and the node's kernel allows none
	ReasonInvalidOrders          = "InvalidOrders"          // the orders cannot be read or carried out
	ReasonSetupFailed            = "SetupFailed"            // the pod's files cannot be laid out on the node
	ReasonAgentRestarted         = "AgentRestarted"         // an earlier agent of the slot had begun the pod
	ReasonEvicted                = "Evicted"                // the pod has exceeded a limit of its volumes or logs; kubelet's own word

	// What a pod's Event tells of the HPC node's limits.
	ReasonLimitTooLow = "LimitTooLow" // a hard limit of processes is below what the site's configuration gives to pods

	// What a pod's Event tells of its port on the HPC node.
	ReasonPortTaken = "PortTaken" // sshd listens elsewhere: another process on the node has the port

	ReasonNodeFailure     = "NodeFailure"
	ReasonPreempted       = "Preempted"
	ReasonRequeued        = "Requeued" // the site put the job back into the queue; it is not run again
	ReasonDeadline        = "DeadlineExceeded"
	ReasonOOMKilled       = "OOMKilled"
	ReasonCancelled       = "AllocationCancelled"
	ReasonAllocationEnded = "AllocationEnded"
	ReasonAllocationLost  = "AllocationLost"
)

// Rejected begins the messages of pods that the node refuses, as kubelet's begin.
const Rejected = "Pod was rejected: "
