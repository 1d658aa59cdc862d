package fluxtest

import (
	"encoding/base64"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/gangline/gangline/flux"
)

// submit is job-ingest.submit. The signature is that of an instance's owner.
func (b *Broker) submit(text []byte) (any, error) {
	in, err := read[struct {
		J       string
		Urgency int
		Flags   int
	}](text)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(in.J, ".")
	if len(parts) != 3 || parts[2] != "none" {
		return nil, refuse(syscall.EINVAL, "the jobspec is not signed by the instance's owner")
	}
	jobspec, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, refuse(syscall.EINVAL, "could not decode the signed jobspec: %v", err)
	}
	spec, shape, err := b.validate(jobspec)
	if err != nil {
		return nil, err
	}
	if in.Urgency < flux.UrgencyHold || in.Urgency > flux.UrgencyExpedite {
		return nil, refuse(syscall.EINVAL, "invalid job urgency")
	}
	b.lastID += 1 << 24 // as far apart as those of a real instance
	j := &job{
		broker: b, id: flux.JobID(b.lastID), spec: spec, shape: shape, text: string(jobspec), signed: in.J,
		name: path.Base(spec.Tasks[0].Command[0]), urgency: in.Urgency,
		reached: map[flux.State]time.Time{}, logs: map[string]*eventlog{flux.LogMain: newEventlog()},
	}
	if named := spec.Attributes.System.Job; named != nil && named.Name != "" {
		j.name = named.Name
	}
	b.jobs = append(b.jobs, j)
	j.enter(flux.StateNew)
	j.post("submit", map[string]int{"userid": b.uid, "urgency": in.Urgency, "flags": in.Flags, "version": 1})
	j.post("validate", nil)
	j.enter(flux.StateDepend)
	b.depend()
	b.schedule()
	return map[string]any{"id": j.id}, nil
}

type jobRequest struct {
	ID       flux.JobID
	Type     string
	Severity int
	Note     string
	Signum   int
	Urgency  int
}

// active finds the job that a request is about.
func (b *Broker) active(text []byte) (jobRequest, *job, error) {
	in, err := read[jobRequest](text)
	if err != nil {
		return in, nil, err
	}
	j := b.find(in.ID)
	switch {
	case j == nil:
		return in, nil, refuse(syscall.ENOENT, "unknown job id")
	case j.state == flux.StateInactive:
		return in, nil, refuse(syscall.ENOENT, "job is inactive")
	}
	return in, j, nil
}

func (b *Broker) raise(text []byte) (any, error) {
	in, j, err := b.active(text)
	if err != nil {
		return nil, err
	}
	if in.Type == "" || in.Severity < 0 || in.Severity > 7 {
		return nil, refuse(syscall.EPROTO, "invalid exception severity or type")
	}
	j.fail(in.Type, in.Severity, in.Note)
	b.schedule()
	return map[string]any{}, nil
}

func (b *Broker) kill(text []byte) (any, error) {
	in, j, err := b.active(text)
	if err != nil {
		return nil, err
	}
	if j.state != flux.StateRun {
		return nil, refuse(syscall.EINVAL, "job is not running")
	}
	j.signal(syscall.Signal(in.Signum))
	return map[string]any{}, nil
}

func (b *Broker) urgency(text []byte) (any, error) {
	in, j, err := b.active(text)
	if err != nil {
		return nil, err
	}
	j.post("urgency", map[string]int{"userid": b.uid, "urgency": in.Urgency})
	old := j.urgency
	j.urgency = in.Urgency
	b.schedule()
	return map[string]int{"old_urgency": old}, nil
}

func (b *Broker) lookup(text []byte) (any, error) {
	in, err := read[struct {
		ID   flux.JobID
		Keys []string
	}](text)
	if err != nil {
		return nil, err
	}
	j := b.find(in.ID)
	if j == nil {
		return nil, refuse(syscall.ENOENT, "No such file or directory")
	}
	answer := map[string]any{"id": in.ID}
	for _, key := range in.Keys {
		value := map[string]string{"jobspec": j.text, "J": j.signed, "R": string(j.r)}[key]
		if log := j.logs[key]; log != nil {
			value = strings.Join(log.lines, "")
		}
		if value == "" {
			return nil, refuse(syscall.ENOENT, "No such file or directory")
		}
		answer[key] = value
	}
	return answer, nil
}
