package provider

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
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
	// Spool is the directory on the shared filesystem, at the same path here
	// and on all HPC nodes.
	Spool string `json:"spool"`
	// Lock is the file that keeps two processes of this node apart. Default: in
	// the spool. On NFS choose one on a local filesystem (see spool.Lock).
	Lock string `json:"lock,omitempty"`
	// Agent is the path of gangline-agent on the HPC nodes.
	Agent string `json:"agent"`

	// WorkloadManager is "slurm" or "local".
	WorkloadManager string      `json:"workloadManager"`
	Slurm           SlurmConfig `json:"slurm,omitempty"`
	Local           LocalConfig `json:"local,omitempty"`

	// Partition is where gangs go that name none; empty for the workload
	// manager's default. Partitions are those that pods may name; empty for
	// all. The node's capacity is Partition's.
	Partition  string   `json:"partition,omitempty"`
	Partitions []string `json:"partitions,omitempty"`

	// QueueFactor multiplies the partition's capacity into the node's
	// allocatable: how much may wait in the workload manager's queue. 1 makes
	// Kubernetes strict. Default 10.
	QueueFactor int `json:"queueFactor,omitempty"`
	// MaxPods is the node's capacity for pods before the factor. Default 1000.
	MaxPods int `json:"maxPods,omitempty"`
	// GPUResource is the extended resource that stands for GPUs. Default
	// nvidia.com/gpu.
	GPUResource string `json:"gpuResource,omitempty"`
	// HostPaths are the directories that hostPath volumes may be in.
	HostPaths []string `json:"hostPaths,omitempty"`
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
	// SpoolInterval between two looks at the spool. Defaults 1s and 200ms.
	JobInterval   metav1.Duration `json:"jobInterval,omitempty"`
	SpoolInterval metav1.Duration `json:"spoolInterval,omitempty"`

	Kubelet KubeletConfig `json:"kubelet"`
	// MetricsAddress serves /metrics, /healthz and /readyz; empty for none.
	MetricsAddress string `json:"metricsAddress,omitempty"`
}

// SlurmConfig is how Slurm is reached by its command line tools.
type SlurmConfig struct {
	// Bin is the directory of sbatch and its like; empty for PATH.
	Bin string `json:"bin,omitempty"`
	// Conf is SLURM_CONF; empty for Slurm's default.
	Conf string `json:"conf,omitempty"`
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
	// CertFile and KeyFile are the serving certificate; ClientCAFile verifies
	// the API server's client certificate.
	CertFile     string `json:"certFile"`
	KeyFile      string `json:"keyFile"`
	ClientCAFile string `json:"clientCAFile"`
}

// LoadConfig reads, defaults and validates a configuration file.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Config{}, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	c.setDefaults()
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("the configuration %s is not valid: %w", path, err)
	}
	return c, nil
}

func (c *Config) setDefaults() {
	defaultTo(&c.Lock, filepath.Join(c.Spool, "."+c.NodeName+".lock"))
	defaultTo(&c.QueueFactor, 10)
	defaultTo(&c.MaxPods, 1000)
	defaultTo(&c.GPUResource, "nvidia.com/gpu")
	defaultTo(&c.ClusterDomain, "cluster.local")
	defaultTo(&c.Cluster, "default")
	defaultTo(&c.Namespace, "gangline-system")
	defaultTo(&c.AllocationGrace.Duration, 2*time.Minute)
	defaultTo(&c.ReleaseTimeout.Duration, 30*time.Second)
	defaultTo(&c.JobInterval.Duration, time.Second)
	defaultTo(&c.SpoolInterval.Duration, 200*time.Millisecond)
	defaultTo(&c.Kubelet.Port, 10250)
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.APIVersion == ConfigAPIVersion && c.Kind == ConfigKind,
		"apiVersion and kind must be %s and %s, not %q and %q", ConfigAPIVersion, ConfigKind, c.APIVersion, c.Kind)
	require(c.NodeName != "", "nodeName is missing")
	require(filepath.IsAbs(c.Spool), "spool must be an absolute path, not %q", c.Spool)
	require(filepath.IsAbs(c.Agent), "agent must be an absolute path, not %q", c.Agent)
	require(c.WorkloadManager == "slurm" || c.WorkloadManager == "local",
		"workloadManager must be slurm or local, not %q", c.WorkloadManager)
	require(c.WorkloadManager != "local" || (filepath.IsAbs(c.Local.StateDir) && len(c.Local.Nodes) > 0),
		"the local workload manager needs local.stateDir, an absolute path, and local.nodes")
	require(c.QueueFactor >= 1, "queueFactor must be 1 or more, not %d", c.QueueFactor)
	require(c.Kubelet.Address != "", "kubelet.address is missing: the IP at which the API server reaches this node")
	require(c.Kubelet.CertFile != "" && c.Kubelet.KeyFile != "" && c.Kubelet.ClientCAFile != "",
		"kubelet needs certFile, keyFile and clientCAFile")
	for _, problem := range validation.IsValidLabelValue(c.Cluster) {
		require(false, "cluster %q cannot be a label's value: %s", c.Cluster, problem)
	}
	for _, p := range c.HostPaths {
		require(filepath.IsAbs(p), "hostPaths must be absolute, not %q", p)
	}
	return errors.Join(errs...)
}
