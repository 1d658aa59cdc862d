package device

import (
	"slices"
	"strconv"
	"strings"
)

// variable is one by which a library is told which devices there are.
type variable struct {
	name string
	// hidden is the value with which the library sees none: an empty one means
	// none to some and nothing to others.
	hidden string
}

// Nvidia names NVIDIA's devices, by index or by what identifies them.
const Nvidia = "CUDA_VISIBLE_DEVICES"

// variables are those of CUDA, of the NVIDIA container toolkit, of ROCm's runtime,
// of HIP and OpenCL above it (which ignore an empty value, and stop at an index
// that does not exist), and of Level Zero (likewise).
func variables() []variable {
	return []variable{
		{Nvidia, ""},
		{"NVIDIA_VISIBLE_DEVICES", "void"},
		{"ROCR_VISIBLE_DEVICES", ""},
		{"HIP_VISIBLE_DEVICES", "-1"},
		{"GPU_DEVICE_ORDINAL", "-1"},
		{"ZE_AFFINITY_MASK", "65535"},
	}
}

// IsVariable tells whether a variable says which devices there are. Nobody may
// bring one along to another pod: its devices are not that pod's.
func IsVariable(name string) bool {
	return slices.ContainsFunc(variables(), func(v variable) bool { return v.name == name })
}

// Binding is the devices of a slot.
type Binding struct {
	// values are the workload manager's variables, as they are in the agent's
	// own environment.
	values map[string]string
	// none tells that the slot has no devices.
	none bool
}

// Bound is the binding of a slot of so many devices whose agent has this
// environment. A slot without devices shares its node's with others' slots, and
// sees none.
func Bound(devices int, env map[string]string) Binding {
	return Binding{values: env, none: devices == 0}
}

// Share is Bound where a slot may have been given more devices than it has asked for, as
// Flux gives all slots of a job the same: it sees as many as it has asked for.
func Share(devices int, env map[string]string) Binding {
	values := make(map[string]string, len(env))
	for name, value := range env {
		values[name] = firstOf(devices, value)
	}
	return Binding{values: values, none: devices == 0}
}

// firstOf is the first n of a list of numbers. Other lists, whose items may be parts of
// devices, stay as they are.
func firstOf(n int, list string) string {
	items := strings.Split(list, ",")
	for _, item := range items {
		if _, err := strconv.Atoi(item); err != nil {
			return list
		}
	}
	return strings.Join(items[:min(n, len(items))], ",")
}

// Known tells whether the workload manager has said which devices the slot has.
func (b Binding) Known() bool { return b.none || len(b.values) > 0 }

// Variables are those that every process of the slot's pod gets. All processes of a
// pod see all of its devices: launchers like torchrun tell each its own by
// LOCAL_RANK.
func (b Binding) Variables() map[string]string {
	if !b.none {
		return b.values
	}
	hidden := map[string]string{}
	for _, v := range variables() {
		hidden[v.name] = v.hidden
	}
	return hidden
}

// Within is the value of a device variable for which a pod asks for one itself. As
// in a container, it counts the pod's own devices from 0; the identifiers of its
// own devices stay. Like CUDA, it ends the list at the first that is none of
// them. A library that the workload manager does not bind gets what was asked
// for.
func (b Binding) Within(name, asked string) string {
	own, bound := b.Variables()[name]
	if !bound || b.none {
		if bound {
			return own
		}
		return asked
	}
	if asked == "all" {
		return own
	}
	devices := strings.Split(own, ",")
	var chosen []string
	for item := range strings.SplitSeq(asked, ",") {
		d, ok := pick(devices, strings.TrimSpace(item))
		if !ok {
			break
		}
		chosen = append(chosen, d)
	}
	if len(chosen) == 0 {
		return hiddenValue(name)
	}
	return strings.Join(chosen, ",")
}

// pick is one of the devices: by its place in the list, with the part of it that
// may follow a dot, or by what identifies it.
func pick(devices []string, item string) (string, bool) {
	place, part, hasPart := strings.Cut(item, ".")
	if n, err := strconv.Atoi(place); err == nil {
		if n < 0 || n >= len(devices) {
			return "", false
		}
		if hasPart {
			return devices[n] + "." + part, true
		}
		return devices[n], true
	}
	return item, item != "" && slices.Contains(devices, item)
}

func hiddenValue(name string) string {
	for _, v := range variables() {
		if v.name == name {
			return v.hidden
		}
	}
	return ""
}

// FromEnvironment collects the variables that the workload manager has set.
func FromEnvironment(env func(string) string) map[string]string {
	values := map[string]string{}
	for _, v := range variables() {
		if value := env(v.name); value != "" {
			values[v.name] = value
		}
	}
	return values
}
