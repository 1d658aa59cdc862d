package translate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/rendezvous"
)

// Inputs is what a pod's orders are made of besides the pod: what References
// lists, and what is known once the gang's agents have reported.
type Inputs struct {
	// ConfigMaps and Secrets of the pod's namespace by name. What is absent
	// does not exist.
	ConfigMaps map[string]*corev1.ConfigMap
	Secrets    map[string]*corev1.Secret
	// Services of the pod's namespace, and default/kubernetes.
	Services []*corev1.Service
	Tokens   map[TokenKey]string
	// Claims of the pod's namespace by name.
	Claims map[string]Claim
	// Site says what of the HPC nodes pods may mount, and what claims and images
	// stand for.
	Site Site

	// PodIP and HostIP are the HPC node's address.
	PodIP, HostIP string
	// NodeAllocatable stands in for limits that a container does not have.
	NodeAllocatable corev1.ResourceList
	ClusterDomain   string
	// APIServer is the host:port at which the HPC nodes reach the API server;
	// empty leaves what the Service default/kubernetes says.
	APIServer string

	// Rank is the slot's, counted from 0 in a gang of Size slots.
	Rank, Size int
	// Hosts is the gang's hostfile in rank order; without any, mpirun stays
	// in the pod.
	Hosts []mpi.Host
	SSH   spool.SSH
	MPI   spool.MPI
	// Port returns the port at which the gang meets instead of the one that is written
	// for a host (see Meeting); nil where all stay as they are written.
	Port rendezvous.Port
}

// MissingError is why a pod has to wait for its orders: an object or a key that
// it names does not exist, or what it names cannot be used. As with kubelet,
// the pod waits and is tried again. The text is kubelet's for what is missing.
type MissingError struct {
	// Volume is the one at fault. All containers wait with the reason
	// ContainerCreating; the Event is a FailedMount with
	// `MountVolume.SetUp failed for volume "name" : ` before the text.
	Volume string
	// Container is the one whose environment or mounts are at fault. It waits
	// with the reason CreateContainerConfigError and the text as message; the
	// Event is a Failed with "Error: " before the text. A fault of the whole
	// pod names neither, and all containers wait so.
	Container string
	// Unattached tells that the volume is one that kubelet would attach first: the
	// Event has other words then.
	Unattached bool
	Message    string
}

func (e *MissingError) Error() string { return e.Message }

// Event is the reason and the text of the Event that tells of it, in kubelet's words.
func (e *MissingError) Event() (reason, text string) {
	switch {
	case e.Unattached:
		return "FailedMount", fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%[1]s], unattached volumes=[], failed to process volumes=[%[1]s]: %[2]s", e.Volume, e.Message)
	case e.Volume != "":
		return "FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", e.Volume, e.Message)
	}
	return "Failed", "Error: " + e.Message
}

func missing(format string, args ...any) error {
	return &MissingError{Message: fmt.Sprintf(format, args...)}
}

// waiting makes an error one to wait for; a missing object's keeps its text.
func waiting(err error) *MissingError {
	if m, ok := errors.AsType[*MissingError](err); ok {
		return m
	}
	return &MissingError{Message: err.Error()}
}

// Kubernetes' defaults, for pods that did not pass through an API server.
const (
	defaultGraceSeconds       = 30
	defaultTerminationMessage = corev1.TerminationMessagePathDefault
)

// Orders makes all that an agent needs to run an admitted pod. A *MissingError
// says that the pod must wait; any other error is not the pod's (an APIServer
// that is no address). Volumes are made before environments, as kubelet does,
// so a fault in a volume is told first.
func Orders(pod *corev1.Pod, in Inputs) (spool.PodOrders, error) {
	r := &resolver{pod: pod, in: in, refs: References(pod)}
	orders, err := r.orders()
	if err != nil {
		return spool.PodOrders{}, fmt.Errorf("making the orders of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return orders, nil
}

// resolver makes orders of one pod.
type resolver struct {
	pod  *corev1.Pod
	in   Inputs
	refs Refs
	// fallbacks are the variables that hold where the pod sets none itself.
	fallbacks []corev1.EnvVar
	volumes   []spool.Volume
}

func (r *resolver) orders() (spool.PodOrders, error) {
	spec := r.pod.Spec
	hostname, err := Hostname(r.pod, r.in.ClusterDomain)
	if err != nil {
		return spool.PodOrders{}, waiting(err)
	}
	services, err := r.serviceVars()
	if err != nil {
		return spool.PodOrders{}, err
	}
	r.fallbacks = append(services, r.gangVars()...)
	if r.volumes, err = r.allVolumes(); err != nil {
		return spool.PodOrders{}, err
	}
	orders := spool.PodOrders{
		UID:           string(r.pod.UID),
		Namespace:     r.pod.Namespace,
		Name:          r.pod.Name,
		Hostname:      hostname,
		RestartPolicy: cmp.Or(spec.RestartPolicy, corev1.RestartPolicyAlways),
		GraceSeconds:  ptr.Deref(spec.TerminationGracePeriodSeconds, defaultGraceSeconds),
		Volumes:       r.volumes,
		HostAliases:   spec.HostAliases,
		SSH:           r.in.SSH,
		MPI:           r.in.MPI,
		Site:          r.in.Site.given(),
	}
	if orders.Runtime, err = r.runtimeOrders(); err != nil {
		return spool.PodOrders{}, err
	}
	if orders.InitContainers, err = r.containers(spec.InitContainers); err != nil {
		return spool.PodOrders{}, err
	}
	if orders.Containers, err = r.containers(spec.Containers); err != nil {
		return spool.PodOrders{}, err
	}
	limitStorage(r.pod, &orders)
	return orders, nil
}

func (r *resolver) containers(specs []corev1.Container) ([]spool.ContainerOrders, error) {
	var all []spool.ContainerOrders
	for i := range specs {
		c, err := r.container(&specs[i])
		if err != nil {
			m := waiting(err)
			m.Container = specs[i].Name
			return nil, m
		}
		all = append(all, c)
	}
	return all, nil
}

func (r *resolver) container(c *corev1.Container) (spool.ContainerOrders, error) {
	env, err := r.environment(c)
	if err != nil {
		return spool.ContainerOrders{}, err
	}
	mounts, err := r.mounts(c, env)
	if err != nil {
		return spool.ContainerOrders{}, err
	}
	env.addMissing(r.mpiVars(mounts))
	if c.TTY {
		env.addMissing([]corev1.EnvVar{{Name: "TERM", Value: "xterm"}}) // as container runtimes do
	}
	expand := func(word string) string { return Expand(word, env.get) }
	argv, inImage := r.in.Site.Images.argv(c, expand), r.inImage(c, expand)
	ssh := r.sshd(argv, mounts)
	if inImage != nil {
		ssh, argv = r.sshd(slices.Concat(inImage.Command, inImage.Args), mounts), nil
	}
	o := spool.ContainerOrders{
		Name:                     c.Name,
		Image:                    c.Image,
		Argv:                     argv,
		InImage:                  inImage,
		SSHD:                     ssh,
		Env:                      env.vars,
		WorkingDir:               c.WorkingDir,
		Mounts:                   mounts,
		Stdin:                    c.Stdin,
		StdinOnce:                c.StdinOnce,
		TTY:                      c.TTY,
		RestartPolicy:            c.RestartPolicy,
		TerminationMessagePath:   cmp.Or(c.TerminationMessagePath, defaultTerminationMessage),
		TerminationMessagePolicy: cmp.Or(c.TerminationMessagePolicy, corev1.TerminationMessageReadFile),
	}
	addHealth(&o, c)
	return o, nil
}

// configMap returns a ConfigMap, or nil for one that is optional and missing.
func (r *resolver) configMap(name string, optional *bool) (*corev1.ConfigMap, error) {
	if m := r.in.ConfigMaps[name]; m != nil {
		return m, nil
	}
	if ptr.Deref(optional, false) {
		return nil, nil
	}
	return nil, missing("configmap %q not found", name)
}

// secret returns a Secret, or nil for one that is optional and missing.
func (r *resolver) secret(name string, optional *bool) (*corev1.Secret, error) {
	if s := r.in.Secrets[name]; s != nil {
		return s, nil
	}
	if ptr.Deref(optional, false) {
		return nil, nil
	}
	return nil, missing("secret %q not found", name)
}
