package fluxtest

import (
	"encoding/json"
	"syscall"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/hostlist"
)

// shape is what a jobspec asks for, of the forms that Flux's own command line makes.
type shape struct {
	nodes     int // 0: as the scheduler likes
	slots     int // of each node, or in all
	cores     int // of each slot
	gpus      int
	exclusive bool
	hosts     map[string]bool // nil: any
	// properties that nodes must have.
	properties []string
}

func (s shape) total() int { return s.slots * max(s.nodes, 1) }

// validate reads a jobspec as Flux's validator does.
func (b *Broker) validate(text []byte) (flux.Jobspec, shape, error) {
	var spec flux.Jobspec
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return spec, shape{}, refuse(syscall.EINVAL, "jobspec: %v", err)
	}
	for _, key := range []string{"resources", "tasks", "attributes", "version"} {
		if _, ok := keys[key]; !ok {
			return spec, shape{}, refuse(syscall.EPERM, "Missing key (%s)", key)
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return spec, shape{}, refuse(syscall.EINVAL, "jobspec: %v", err)
	}
	switch tasks := spec.Tasks; {
	case spec.Version != 1:
		return spec, shape{}, refuse(syscall.EPERM, "jobspec version must be 1")
	case len(tasks) != 1 || len(tasks[0].Command) == 0 || tasks[0].Count.PerSlot != 1:
		return spec, shape{}, refuse(syscall.EPERM, "jobspec must have one task with a command, one per slot")
	}
	s, err := readShape(spec.Resources)
	if err != nil {
		return spec, s, err
	}
	if err := s.constrain(spec.Attributes.System.Constraints); err != nil {
		return spec, s, err
	}
	return spec, s, b.validateQueue(spec.Attributes.System.Queue)
}

func (b *Broker) validateQueue(queue string) error {
	if queue == "" && len(b.cfg.Queues) == 0 {
		return nil
	}
	for _, known := range b.cfg.Queues {
		if known == queue {
			return nil
		}
	}
	if queue == "" {
		return refuse(syscall.EINVAL, "no queue was specified and there is no default")
	}
	return refuse(syscall.EINVAL, "Invalid queue '%s' specified", queue)
}

func readShape(resources []flux.Resource) (shape, error) {
	bad := refuse(syscall.EPERM, "the double knows resources of node, slot, core and gpu only")
	if len(resources) != 1 {
		return shape{}, bad
	}
	r, s := resources[0], shape{}
	if r.Type == "node" {
		s.nodes, s.exclusive = r.Count, r.Exclusive
		if len(r.With) != 1 {
			return s, bad
		}
		r = r.With[0]
	}
	if r.Type != "slot" || r.Count < 1 {
		return s, bad
	}
	s.slots = r.Count
	for _, child := range r.With {
		switch child.Type {
		case "core":
			s.cores += child.Count
		case "gpu":
			s.gpus += child.Count
		default:
			return s, bad
		}
	}
	if s.cores < 1 {
		return s, refuse(syscall.EPERM, "slot must have at least one core")
	}
	return s, nil
}

// constrain reads the part of RFC 31 that the double knows.
func (s *shape) constrain(c flux.Constraint) error {
	for operator, operands := range c {
		switch operator {
		case "hostlist":
			s.hosts = map[string]bool{}
			for _, o := range operands {
				list, _ := o.(string)
				hosts, err := hostlist.Expand(list)
				if err != nil {
					return refuse(syscall.EINVAL, "%v", err)
				}
				for _, h := range hosts {
					s.hosts[h] = true
				}
			}
		case "properties":
			for _, o := range operands {
				name, _ := o.(string)
				s.properties = append(s.properties, name)
			}
		case "and":
			for _, o := range operands {
				inner, ok := o.(map[string]any)
				if !ok {
					return refuse(syscall.EINVAL, "invalid constraint")
				}
				for name, list := range inner {
					values, ok := list.([]any)
					if !ok {
						return refuse(syscall.EINVAL, "invalid constraint")
					}
					if err := s.constrain(flux.Constraint{name: values}); err != nil {
						return err
					}
				}
			}
		default:
			return refuse(syscall.EINVAL, "unknown constraint operator: %s", operator)
		}
	}
	return nil
}
