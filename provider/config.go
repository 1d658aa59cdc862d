package provider

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/strictyaml"
	"github.com/gangline/gangline/translate"
)

// The configuration file's apiVersion and kind.
const (
	ConfigAPIVersion = "config.gangline.dev/v1alpha1"
	ConfigKind       = "NodeConfiguration"
)

// Config is gangline-node's configuration file. Unknown fields are errors.
type Config struct {
	metav1.TypeMeta `json:",inline"`

	// NodeName is the virtual node's name.
	NodeName string `json:"nodeName"`
	// Cluster names the HPC cluster that the node stands for, in its label
	// gangline.dev/cluster; nodes of several partitions may share it. TrainJobs
	// ask for it by this name. Default "default".
	Cluster string `json:"cluster,omitempty"`
	// Namespace is the node's own: the Secret with its key lives there.
	Namespace string `json:"namespace"`
	// Spool is the directory on the shared filesystem, at the same path where jobs
	// are submitted and on all HPC nodes. Where gangs are of several users it has
	// "{user}" in place of the user's name.
	Spool string `json:"spool"`
	// Lock is the file that keeps two processes of this node apart. Default: in
	// the spool. On NFS choose one on a local filesystem (see spool.Lock). Where
	// gangs are of several users there is one for each: it has "{user}" too.
	Lock string `json:"lock,omitempty"`
	// Agent is the path of gangline-agent on the HPC nodes. By way of a login node it is
	// brought there instead.
	Agent string `json:"agent,omitempty"`

	// Access is how the HPC side is reached, and as whom. Default: as the user of this
	// process.
	Access AccessConfig `json:"access,omitempty"`
	// Identity maps namespaces and ServiceAccounts to HPC users, and what each may use.
	// The first rule that fits counts; a pod that none fits is refused. Without rules all
	// gangs are of this process's user.
	Identity identity.Map `json:"identity,omitempty"`

	// WorkloadManager is "slurm", "flux" or "local".
	WorkloadManager string      `json:"workloadManager"`
	Slurm           SlurmConfig `json:"slurm,omitempty"`
	Flux            FluxConfig  `json:"flux,omitzero"`
	Local           LocalConfig `json:"local,omitempty"`

	// Partition is where gangs go that name none; empty for the workload
	// manager's default. Partitions are those that pods may name; empty for
	// all. The node's capacity is Partition's.
	Partition  string   `json:"partition,omitempty"`
	Partitions []string `json:"partitions,omitempty"`

	// Nodes are more virtual nodes of this process, for other partitions.
	Nodes []NodeEntry `json:"nodes,omitempty"`

	// QueueFactor multiplies the partition's capacity into the node's
	// allocatable: how much may wait in the workload manager's queue. 1 makes
	// Kubernetes strict. Default 10.
	QueueFactor int `json:"queueFactor,omitempty"`
	// MaxPods is the node's capacity for pods before the factor. Default 1000.
	MaxPods int `json:"maxPods,omitempty"`
	// GPUResource is the extended resource that stands for GPUs. Default
	// nvidia.com/gpu.
	GPUResource string `json:"gpuResource,omitempty"`
	// Resources are extended resources beside it and the workload manager's generic
	// resources that they stand for: {"amd.com/gpu": "gpu:mi300", "nvidia.com/gpu.shared": "shard"}.
	Resources translate.DeviceResources `json:"resources,omitempty"`
	// CountOthers takes what jobs of others use off the node's capacity, for who wants
	// Kubernetes to see only what is free: then QueueFactor is best 1.
	CountOthers bool `json:"countOthers,omitempty"`
	// PriorityClasses are how far the jobs of pods of a PriorityClass stand back in the
	// queue (sbatch --nice), for those that are named: {"batch-low": 1000}.
	PriorityClasses map[string]int `json:"priorityClasses,omitempty"`
	// TimeLimitWarning is how long before the time limit pods get SIGTERM that do not
	// say so themselves; 0 for each pod's own grace period, below 0 for no warning.
	TimeLimitWarning metav1.Duration `json:"timeLimitWarning,omitempty"`
	// NodeLabels and NodeTaints are set on the virtual node beside its own. What
	// others set stays.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	NodeTaints []corev1.Taint    `json:"nodeTaints,omitempty"`
	// Architecture is the HPC nodes', as the label kubernetes.io/arch has it.
	// Default: that of gangline-node.
	Architecture string `json:"architecture,omitempty"`
	// Images tells what images mean on the HPC nodes, where none is pulled: the
	// programs that stand in for their entrypoints.
	Images translate.Images `json:"images,omitempty"`
	// Containers is how images are run where they are more than that.
	Containers ContainersConfig `json:"containers,omitzero"`
	// HostPaths are the directories that hostPath volumes may be in.
	HostPaths []string `json:"hostPaths,omitempty"`
	// ReadOnlyHostPaths are such directories that pods may only read. Where one is in
	// the other, the deeper one counts.
	ReadOnlyHostPaths []string `json:"readOnlyHostPaths,omitempty"`
	// Volumes is how pods' volumes come to the HPC side.
	Volumes VolumesConfig `json:"volumes,omitempty"`
	// Environment are variables for pods that do not set them. Of several entries for one
	// variable the first counts whose partitions fit.
	Environment translate.SiteVariables `json:"environment,omitempty"`
	// Limits are the soft limits of pods' processes by their names in limits.conf(5):
	// a number, a quantity of bytes, "unlimited", or "hard" for as much as the HPC node
	// allows. What is not named is as the workload manager has it.
	Limits translate.ProcessLimits `json:"limits,omitempty"`
	// ClusterDomain is the cluster's DNS domain. Default cluster.local.
	ClusterDomain string `json:"clusterDomain,omitempty"`
	// APIServer is the host:port at which the HPC nodes reach the API server,
	// given to pods as KUBERNETES_SERVICE_HOST and _PORT. Empty leaves the
	// cluster's own.
	APIServer string `json:"apiServer,omitempty"`

	// AllocationGrace is how long an allocation without pods is kept for the
	// pods of a restarted owner. Default 2m.
	AllocationGrace metav1.Duration `json:"allocationGrace,omitempty"`
	// ReleaseTimeout is how long agents have to end by themselves before the
	// job is cancelled. Default 30s.
	ReleaseTimeout metav1.Duration `json:"releaseTimeout,omitempty"`
	// JobInterval is the time between two queries of the workload manager,
	// SpoolInterval between two looks at the spool, InventoryInterval between
	// two questions after the partition's nodes. Defaults 1s, 200ms and 30s.
	JobInterval       metav1.Duration `json:"jobInterval,omitempty"`
	SpoolInterval     metav1.Duration `json:"spoolInterval,omitempty"`
	InventoryInterval metav1.Duration `json:"inventoryInterval,omitempty"`

	// Orphans is what is done about what bears this node's mark and belongs to nobody.
	Orphans OrphansConfig `json:"orphans,omitempty"`

	// ContainerLogMaxSize is the size at which a file of a container's log is
	// followed by the next, below 0 for one file of any size; ContainerLogMaxFiles
	// is how many are kept of each run. Names and defaults are kubelet's: 10Mi, 5.
	ContainerLogMaxSize  resource.Quantity `json:"containerLogMaxSize,omitzero"`
	ContainerLogMaxFiles int               `json:"containerLogMaxFiles,omitempty"`

	// LeaderElection lets a second process stand by.
	LeaderElection LeaderElectionConfig `json:"leaderElection,omitempty"`

	Kubelet KubeletConfig `json:"kubelet"`
	// MetricsAddress serves /metrics, /healthz and /readyz; empty for none.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	// PageAddress serves the web pages of this process's nodes without asking who looks, as
	// in "127.0.0.1:10280": a loopback IP only, so whoever has an account on this machine
	// sees them. Empty for none: a node's page is at its own port in any case, behind its
	// authentication.
	PageAddress string `json:"pageAddress,omitempty"`
}

// SlurmConfig is how Slurm is reached: by its command line tools or, with REST, by
// slurmrestd.
type SlurmConfig struct {
	// Bin is the directory of sbatch and its like; empty for PATH.
	Bin string `json:"bin,omitempty"`
	// Conf is SLURM_CONF; empty for Slurm's default.
	Conf string `json:"conf,omitempty"`
	// REST asks slurmrestd in place of the tools. Bin and Conf are then those of
	// the HPC nodes.
	REST *SlurmRESTConfig `json:"rest,omitempty"`
	// AllowedFlags are the options of sbatch, by their long names without dashes, that
	// pods may set with the annotation gangline.dev/sbatch-flags. Default: none.
	AllowedFlags []string `json:"allowedFlags,omitempty"`
}

// SlurmRESTConfig is how slurmrestd is reached.
type SlurmRESTConfig struct {
	// URL is unix:/PATH, http://HOST:PORT or https://HOST:PORT.
	URL string `json:"url"`
	// TokenFile holds the JSON Web Token of the user that the jobs run as. It is read
	// for each request, so it can be renewed at any time. Where gangs are of several
	// users it has "{user}" in place of the name: each has a token of his own.
	TokenFile string `json:"tokenFile"`
	// User is whom the token is for. Default: the user that it names.
	User string `json:"user,omitempty"`
	// CAFile verifies the server's certificate. Default: the system's CAs.
	CAFile string `json:"caFile,omitempty"`
	// APIVersion is the version of the API, such as "v0.0.41". Default: the newest
	// that both sides know.
	APIVersion string `json:"apiVersion,omitempty"`
}

// problems is what is wrong with it.
func (c *SlurmRESTConfig) problems() []string {
	if c == nil {
		return nil
	}
	var problems []string
	if c.URL == "" {
		problems = append(problems, "slurm.rest.url is missing: unix:/PATH, http://HOST:PORT or https://HOST:PORT")
	}
	if !filepath.IsAbs(c.TokenFile) {
		problems = append(problems, fmt.Sprintf("slurm.rest.tokenFile must be an absolute path, not %q", c.TokenFile))
	}
	if c.CAFile != "" && !filepath.IsAbs(c.CAFile) {
		problems = append(problems, fmt.Sprintf("slurm.rest.caFile must be an absolute path, not %q", c.CAFile))
	}
	return problems
}

// LocalConfig is the embedded workload manager.
type LocalConfig struct {
	// StateDir is a directory on a local filesystem for its queue.
	StateDir string `json:"stateDir,omitempty"`
	// Nodes are simulated as processes on this machine.
	Nodes []LocalNode `json:"nodes,omitempty"`
}

// LocalNode is one simulated node: what its jobs may ask for in all.
type LocalNode struct {
	Name      string `json:"name"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int64  `json:"memoryMiB"`
	GPUs      int    `json:"gpus,omitempty"`
}

// KubeletConfig is the node's own API, for logs and exec.
type KubeletConfig struct {
	// Address is the IP that the API server reaches, Port its port (default
	// 10250).
	Address string `json:"address"`
	Port    int32  `json:"port,omitempty"`
	// CertFile and KeyFile hold the serving certificate and are read again when
	// they change. Without them it is asked for by a CertificateSigningRequest
	// (signer kubernetes.io/kubelet-serving), renewed in time, and kept in
	// CertDir, a directory that only the node's user can enter.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	CertDir  string `json:"certDir,omitempty"`
	// ClientCAFile verifies the API server's client certificate, and those of
	// other callers.
	ClientCAFile string `json:"clientCAFile"`
}

// LoadConfig reads, defaults and validates a configuration file. The changes are what the
// process was told otherwise.
func LoadConfig(path string, changes ...func(*Config)) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	var c Config
	document, err := strictyaml.Unmarshal(data, &c)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	for _, change := range changes {
		change(&c)
	}
	c.setDefaults()
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("the configuration %s is not valid: %w", path, document.ExplainAll(err))
	}
	return c, nil
}

// usualLock is the lock where none is named.
func (c Config) usualLock() string { return filepath.Join(c.Spool, "."+c.NodeName+".lock") }

func (c *Config) setDefaults() {
	defaultTo(&c.Lock, c.usualLock())
	defaultTo(&c.QueueFactor, 10)
	defaultTo(&c.MaxPods, 1000)
	defaultTo(&c.GPUResource, "nvidia.com/gpu")
	defaultTo(&c.ClusterDomain, "cluster.local")
	defaultTo(&c.Cluster, "default")
	defaultTo(&c.Namespace, "gangline-system")
	defaultTo(&c.AllocationGrace.Duration, 2*time.Minute)
	defaultTo(&c.ReleaseTimeout.Duration, 30*time.Second)
	defaultTo(&c.Orphans.Grace.Duration, 10*time.Minute)
	defaultTo(&c.Orphans.Action, OrphansClean)
	defaultTo(&c.JobInterval.Duration, time.Second)
	defaultTo(&c.SpoolInterval.Duration, 200*time.Millisecond)
	defaultTo(&c.Volumes.RefreshInterval.Duration, time.Minute)
	defaultTo(&c.InventoryInterval.Duration, 30*time.Second)
	defaultTo(&c.Architecture, runtime.GOARCH)
	defaultTo(&c.Kubelet.Port, 10250)
	c.LeaderElection.setDefaults()
	c.Containers.setDefaults()
	defaultTo(&c.ContainerLogMaxFiles, 5)
	if c.ContainerLogMaxSize.IsZero() {
		c.ContainerLogMaxSize = resource.MustParse("10Mi")
	}
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// minLogSize leaves room for a few of the longest lines.
const minLogSize = 64 << 10

func (c *Config) validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.APIVersion == ConfigAPIVersion && c.Kind == ConfigKind,
		"apiVersion and kind must be %s and %s, not %q and %q", ConfigAPIVersion, ConfigKind, c.APIVersion, c.Kind)
	for _, problem := range validation.IsDNS1123Subdomain(c.NodeName) {
		require(false, "nodeName %q cannot be a node's name: %s", c.NodeName, problem)
	}
	require(filepath.IsAbs(c.Spool), "spool must be an absolute path, not %q", c.Spool)
	require(filepath.IsAbs(c.Agent) || c.Access.Mode == sites.SSH && c.Agent == "", "agent must be an absolute path, not %q", c.Agent)
	require(slices.Contains([]string{"slurm", managerFlux, "local"}, c.WorkloadManager),
		"workloadManager must be slurm, flux or local, not %q", c.WorkloadManager)
	require(c.WorkloadManager != "local" || (filepath.IsAbs(c.Local.StateDir) && len(c.Local.Nodes) > 0),
		"the local workload manager needs local.stateDir, an absolute path, and local.nodes")
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{
		{"jobInterval", c.JobInterval.Duration, 100 * time.Millisecond},
		{"spoolInterval", c.SpoolInterval.Duration, 20 * time.Millisecond},
		{"inventoryInterval", c.InventoryInterval.Duration, time.Second},
		{"allocationGrace", c.AllocationGrace.Duration, 0},
		{"releaseTimeout", c.ReleaseTimeout.Duration, 0},
	} {
		require(d.value >= d.least, "%s must be %s or more, not %s", d.name, d.least, d.value)
	}
	require(c.QueueFactor >= 1, "queueFactor must be 1 or more, not %d", c.QueueFactor)
	require(net.ParseIP(c.Kubelet.Address) != nil, "kubelet.address must be the IP at which the API server reaches this node, not %q", c.Kubelet.Address)
	_, _, err := net.SplitHostPort(c.MetricsAddress)
	require(c.MetricsAddress == "" || c.MetricsAddress == "0" || err == nil, "metricsAddress must be like 127.0.0.1:8080 or :8080, not %q", c.MetricsAddress)
	files := c.Kubelet.CertFile != "" && c.Kubelet.KeyFile != "" && c.Kubelet.CertDir == ""
	requested := c.Kubelet.CertFile == "" && c.Kubelet.KeyFile == "" && filepath.IsAbs(c.Kubelet.CertDir)
	require(files || requested, "kubelet needs certFile and keyFile, or certDir, an absolute path, for a certificate that the cluster signs")
	require(c.Kubelet.ClientCAFile != "", "kubelet.clientCAFile is missing: the CA of the API server's client certificate")
	for _, problem := range validation.IsValidLabelValue(c.Cluster) {
		require(false, "cluster %q cannot be a label's value: %s", c.Cluster, problem)
	}
	for _, problem := range slices.Concat(c.Slurm.REST.problems(), c.fluxProblems(), c.nodeProblems(), c.nodesProblems(), c.wishProblems(), c.Containers.problems()) {
		require(false, "%s", problem)
	}
	for _, i := range c.Images {
		require(i.Name != "" && len(i.Entrypoint)+len(i.Cmd) > 0, "each of images needs a name, and an entrypoint or cmd, not %+v", i)
	}
	require(c.ContainerLogMaxFiles >= 2, "containerLogMaxFiles must be 2 or more, not %d", c.ContainerLogMaxFiles)
	require(c.ContainerLogMaxSize.Sign() < 0 || c.ContainerLogMaxSize.Value() >= minLogSize,
		"containerLogMaxSize must be %d bytes or more, or below 0 for no limit, not %s", minLogSize, c.ContainerLogMaxSize.String())
	for _, p := range c.HostPaths {
		require(filepath.IsAbs(p), "hostPaths must be absolute, not %q", p)
	}
	for _, p := range c.ReadOnlyHostPaths {
		require(filepath.IsAbs(p), "readOnlyHostPaths must be absolute, not %q", p)
	}
	errs = append(errs, c.Volumes.validate(), c.Environment.Validate(), c.Limits.Validate(), c.Orphans.validate(), c.validatePage(), c.LeaderElection.validate(), c.validateAccess())
	return errors.Join(errs...)
}
