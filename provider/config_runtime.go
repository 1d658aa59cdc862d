package provider

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// ContainersConfig is how pods' images are run on the HPC nodes.
type ContainersConfig struct {
	// Runtime is that of pods that name none by the annotation gangline.dev/runtime.
	// Default: host, where a container is a program of the HPC node and no image is pulled.
	Runtime string `json:"runtime,omitempty"`
	// Allowed are the runtimes that pods may name: host, charliecloud, bubblewrap, podman,
	// apptainer, singularity, enroot. Default: Runtime alone.
	Allowed []string `json:"allowed,omitempty"`
	// Runtimes are the site's settings of runtimes, by their names.
	Runtimes map[string]RuntimeConfig `json:"runtimes,omitempty"`
	// Store is where images are kept.
	Store StoreConfig `json:"store,omitzero"`
	// Registries is how registries are reached.
	Registries RegistriesConfig `json:"registries,omitzero"`
	// Offline maps images' names, or patterns of them, to paths on the HPC nodes: of an
	// unpacked root filesystem, a SIF or a squashfs. They are not pulled.
	Offline map[string]string `json:"offline,omitempty"`
	// Binds are paths of the HPC nodes that every container has, such as an MPI and its
	// fabric's libraries.
	Binds []spool.Bind `json:"binds,omitempty"`
	// Home is what containers have as home directory: "private", an empty one for each pod,
	// or "user", the HPC user's own. Default private.
	Home string `json:"home,omitempty"`
	// GPUs is who made the HPC nodes' GPUs: "nvidia" or "amd", for the libraries that the
	// node's driver needs to have in containers. Default nvidia.
	GPUs string `json:"gpus,omitempty"`
	// GPULibraries are patterns of the libraries and programs that a container with GPUs
	// finds. Default: those that GPUs's vendor names.
	GPULibraries []string `json:"gpuLibraries,omitempty"`
}

// RuntimeConfig is how a runtime is called.
type RuntimeConfig struct {
	// Program is its file on the HPC nodes. Default: its usual name on PATH.
	Program string `json:"program,omitempty"`
	// Options are more words for its command line.
	Options []string `json:"options,omitempty"`
}

// StoreConfig is where images are kept on the HPC side.
type StoreConfig struct {
	// Dir is a directory on the shared filesystem, which the agents make. With "{user}"
	// each user has one.
	Dir string `json:"dir,omitempty"`
	// MaxSize is how large it may become, "500Gi"; 0 or none is without a bound.
	MaxSize resource.Quantity `json:"maxSize,omitzero"`
	// MinAge is how long an image is kept after its last use. Default 24h.
	MinAge metav1.Duration `json:"minAge,omitzero"`
}

// RegistriesConfig is how registries are reached from the HPC nodes.
type RegistriesConfig struct {
	// Mirrors are asked before a registry, in this order: {"docker.io": ["mirror.site:5000"]}.
	Mirrors map[string][]string `json:"mirrors,omitempty"`
	// Insecure are the hosts that may be spoken to without TLS, or without a certificate
	// that can be verified.
	Insecure []string `json:"insecure,omitempty"`
	// CAFile holds more certificates that registries' may be signed with.
	CAFile string `json:"caFile,omitempty"`
	// CredentialsFile is the site's own .dockerconfigjson on the HPC nodes, which its users
	// can read.
	CredentialsFile string `json:"credentialsFile,omitempty"`
	// Tool is a command that copies an image into an OCI layout, in place of our own pulling:
	// ["skopeo", "copy", "--authfile={authfile}", "docker://{image}", "oci:{layout}"].
	Tool []string `json:"tool,omitempty"`
}

// defaultImageAge keeps an image over a working day's pauses.
const defaultImageAge = 24 * time.Hour

// The values of ContainersConfig.Home.
const (
	homePrivate = "private"
	homeUser    = "user"
)

func (c *ContainersConfig) setDefaults() {
	defaultTo(&c.Runtime, translate.RuntimeHost)
	if c.Allowed == nil {
		c.Allowed = []string{c.Runtime}
	}
	defaultTo(&c.Home, homePrivate)
	defaultTo(&c.GPUs, "nvidia")
	defaultTo(&c.Store.MinAge.Duration, defaultImageAge)
}

// problems is what is wrong with it. Each begins with the path of its setting.
func (c *ContainersConfig) problems() []string {
	var problems []string
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("containers."+format, args...))
	}
	known := translate.RuntimeNames()
	oneOf := strings.Join(known, ", ")
	for _, name := range c.Allowed {
		if !slices.Contains(known, name) {
			add("allowed: there is no runtime %q, but %s", name, oneOf)
		}
	}
	if !slices.Contains(known, c.Runtime) {
		add("runtime: there is no runtime %q, but %s", c.Runtime, oneOf)
	} else if !slices.Contains(c.Allowed, c.Runtime) {
		add("runtime is %s, which containers.allowed does not have: add it there", c.Runtime)
	}
	for name, r := range c.Runtimes {
		if !slices.Contains(known, name) || name == translate.RuntimeHost {
			add("runtimes.%s: there is no such container runtime, but %s", name, strings.Join(known[1:], ", "))
		}
		if r.Program != "" && !filepath.IsAbs(r.Program) {
			add("runtimes.%s.program must be an absolute path, not %q", name, r.Program)
		}
	}
	images := slices.ContainsFunc(c.Allowed, func(name string) bool { return name != translate.RuntimeHost })
	if images && !filepath.IsAbs(c.Store.Dir) {
		add("store.dir must be the absolute path of a directory on the shared filesystem where images are run, not %q", c.Store.Dir)
	}
	if rest := strings.ReplaceAll(c.Store.Dir, spool.FieldUser, ""); strings.ContainsAny(rest, "{}") {
		add("store.dir %q may have no field but %s", c.Store.Dir, spool.FieldUser)
	}
	if c.Store.MaxSize.Sign() < 0 || c.Store.MinAge.Duration < 0 {
		add("store.maxSize and store.minAge must not be below 0")
	}
	for _, file := range []struct{ name, path string }{
		{"caFile", c.Registries.CAFile}, {"credentialsFile", c.Registries.CredentialsFile},
	} {
		if file.path != "" && !filepath.IsAbs(file.path) {
			add("registries.%s must be an absolute path, not %q", file.name, file.path)
		}
	}
	for image, path := range c.Offline {
		if !filepath.IsAbs(path) {
			add("offline: the path of %s must be absolute, not %q", image, path)
		}
	}
	for i, b := range c.Binds {
		if !filepath.IsAbs(b.Source) || b.Target != "" && !filepath.IsAbs(b.Target) {
			add("binds[%d]: source, and target if there is one, must be absolute paths, not %q and %q", i, b.Source, b.Target)
		}
	}
	if c.Home != homePrivate && c.Home != homeUser {
		add("home must be %s or %s, not %q", homePrivate, homeUser, c.Home)
	}
	if c.GPUs != "nvidia" && c.GPUs != "amd" {
		add("gpus must be nvidia or amd, not %q", c.GPUs)
	}
	return problems
}

// Programs are the programs of the container runtimes that pods may choose, by the
// runtimes' names. An empty one is the usual.
func (c *ContainersConfig) Programs() map[string]string {
	programs := map[string]string{}
	for _, name := range c.Allowed {
		if name != translate.RuntimeHost {
			programs[name] = c.Runtimes[name].Program
		}
	}
	return programs
}

// offered is what admission needs to know of it, and what agents are told.
func (c *ContainersConfig) offered() translate.Runtimes {
	images := spool.ImageStore{
		Dir: c.Store.Dir, MaxBytes: c.Store.MaxSize.Value(), MinAgeSeconds: int64(c.Store.MinAge.Seconds()),
		Offline: c.Offline, Mirrors: c.Registries.Mirrors, Insecure: c.Registries.Insecure,
		CAFile: c.Registries.CAFile, CredentialsFile: c.Registries.CredentialsFile, Tool: c.Registries.Tool,
	}
	orders := map[string]spool.Runtime{}
	for _, name := range c.Allowed {
		if name == translate.RuntimeHost {
			continue
		}
		own := c.Runtimes[name]
		orders[name] = spool.Runtime{
			Name: name, Program: own.Program, Options: own.Options, Images: images, Binds: c.Binds,
			HomeOfUser: c.Home == homeUser, GPUs: c.GPUs, GPULibraries: c.GPULibraries,
		}
	}
	return translate.Runtimes{Default: c.Runtime, Allowed: c.Allowed, Orders: orders}
}
