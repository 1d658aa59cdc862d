package image

import (
	"fmt"
	"log/slog"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image/tool"
)

// Form is how an image lies in the store.
type Form string

// The forms that runtimes take.
const (
	// FormTree is an unpacked root filesystem: a directory.
	FormTree Form = "tree"
	// FormSIF is a file of Apptainer and Singularity.
	FormSIF Form = "sif"
	// FormSquashfs is a file that holds a root filesystem.
	FormSquashfs Form = "squashfs"
)

// Policy is a container's imagePullPolicy.
type Policy = corev1.PullPolicy

// Request asks for an image.
type Request struct {
	// Reference is the image's name as the pod has it.
	Reference string
	Policy    Policy
	// Credentials is a .dockerconfigjson: the pod's imagePullSecrets, merged by
	// MergeCredentials. It may be nil. It is never written anywhere.
	Credentials []byte
	// Form is what the runtime takes.
	Form Form
	// Accepts are more forms that the runtime takes as they are. They count for
	// images of the offline map only, which are not converted.
	Accepts []Form
	// Progress hears what kubelet would tell in Events. It is called by one goroutine
	// at a time, and may be nil.
	Progress func(Event)
}

// Event is what kubelet would record: of the type Normal or Warning, with its words for
// reasons: Pulling, Pulled, Failed.
type Event struct {
	Type, Reason, Message string
}

// Image is an image that is ready for use.
type Image struct {
	// Reference is the name that was asked for.
	Reference string
	// Digest is what the name stands for in its registry ("sha256:…"): of the index,
	// where there is one. It is empty for images of the offline map.
	Digest string
	// ID is the image as a container's status has it: repository@digest, or the path
	// of an image of the offline map.
	ID string
	// Form and Path say what is to be run. Nothing may write there.
	Form Form
	Path string
	// Config is the image's own configuration: entrypoint, environment, user.
	Config v1.Config
	// Size is in bytes, as it lies in the store; 0 if it is not known.
	Size int64
}

// Reasons of an Error: kubelet's words.
const (
	ReasonInvalidImageName    = "InvalidImageName"
	ReasonErrImageNeverPull   = "ErrImageNeverPull"
	ReasonErrImagePull        = "ErrImagePull"
	ReasonRegistryUnavailable = "RegistryUnavailable"
)

// Error says why there is no image, for a container's waiting state.
type Error struct {
	// Reason is one of the words above.
	Reason string `json:"reason"`
	// Message names cause and cure. There is no secret in it.
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// Options describe the site's store and registries.
type Options struct {
	// Dir is the store: a directory on the shared filesystem. It is made if need be.
	Dir string `json:"dir"`
	// Offline maps images' names or patterns of them (path.Match) to paths: of an
	// unpacked tree, a SIF or a squashfs. They are used as they are.
	Offline map[string]string `json:"offline,omitempty"`
	// Mirrors maps registries' hosts to those that are asked first, in this order:
	// "host[:port][/prefix]". The registry itself is asked last.
	Mirrors map[string][]string `json:"mirrors,omitempty"`
	// Insecure are the hosts ("host[:port]") that may be spoken to over HTTP, or with a
	// certificate that nobody has signed.
	Insecure []string `json:"insecure,omitempty"`
	// CAFile holds the certificates that registries' may be signed with, besides the
	// system's: PEM.
	CAFile string `json:"caFile,omitempty"`
	// CredentialsFile is the site's own .dockerconfigjson, readable to its users.
	CredentialsFile string `json:"credentialsFile,omitempty"`
	// Tool is a command that copies an image into an OCI layout, in place of our own
	// pulling, as ["skopeo", "copy", "--authfile={authfile}", "docker://{image}",
	// "oci:{layout}"]. {image} has a digest.
	Tool []string `json:"tool,omitempty"`
	// MaxBytes is how large the store may become; 0 is without a bound. What is in use
	// is never removed, so it may be larger for a while.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// MinAge is how long an image is kept after its last use.
	MinAge time.Duration `json:"minAge,omitempty"`

	// Program is the agent's own file: pulling is done by a process of its own, at a low
	// priority, so that the agent stays small. Empty: in this process.
	Program string `json:"-"`
	// Converters are the programs that make forms of trees, in place of those that PATH
	// has: what makes a SIF is the runtime that takes it.
	Converters map[Form]string `json:"-"`
	// Run starts Program and converters. It may be nil where this process waits for no
	// children otherwise.
	Run tool.Runner `json:"-"`
	// Logger hears what nobody else is told. It may be nil.
	Logger *slog.Logger `json:"-"`
}
