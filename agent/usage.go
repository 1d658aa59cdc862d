package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/device"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/usage"
	"github.com/gangline/gangline/provider/spool"
)

const (
	// usageInterval is the pace of the measurements: metrics-server asks as often.
	usageInterval = 15 * time.Second
	// usageFirst is when a container is measured again after its start. A
	// measurement of its first 10 to 15 s is all that metrics-server needs to show
	// it.
	usageFirst = 11 * time.Second
	// A look goes over all processes of the node. Where there are thousands, or many agents
	// of one node do so, the pause after it is usageRest times as long, at most usageSlowest.
	usageRest    = 100
	usageSlowest = time.Minute
	// usageTogether is how long a container that has started waits for others. It is short:
	// whoever sees that it runs may ask what it uses.
	usageTogether = 5 * time.Millisecond
	// usageAgain is how old what is written may get, although it has not changed.
	usageAgain = time.Minute
	// deviceTimeout bounds the question after devices.
	deviceTimeout = 10 * time.Second
	// deviceQuiet is how long the answer may be silent after the command's end.
	deviceQuiet = 100 * time.Millisecond
)

// measure has a run measured until the function that it returns is called.
func (p *pod) measure(container string, run int, proc *process.Process) (end func()) {
	return p.slot.meter.Begin(usage.Run{
		Slot: p.slot.index, PodUID: p.orders.UID, Container: container, Number: run,
		Started: time.Now(), Mark: lifecycle.RunID(p.orders.UID, container, run), PID: proc.PID(),
	})
}

// reportUsage writes what the slots' pods use until the context ends.
func (a *agent) reportUsage(ctx context.Context, slots []*slot) {
	devices := map[int]string{}
	for _, s := range slots {
		bound := a.cfg.bound(s.spec.GPUs)
		if visible := bound.Variables()[device.Nvidia]; s.spec.GPUs > 0 && visible != "" {
			devices[s.index] = visible
		}
	}
	written := map[int]spool.Usage{}
	timer := time.NewTimer(usageInterval)
	defer timer.Stop()
	for {
		next := usageInterval
		select {
		case <-ctx.Done():
			return
		case <-a.meter.Began():
			next = usageFirst
			select {
			case <-ctx.Done():
				return
			case <-time.After(usageTogether):
			}
		case <-timer.C:
		}
		looked := time.Now()
		measured, err := a.meter.Sample()
		took := time.Since(looked)
		if err != nil {
			a.cfg.Logger.Error("measuring what pods use", "error", err)
		}
		for slot, u := range measured {
			if visible, ok := devices[slot]; ok && next != usageFirst {
				u.Devices = a.askDevices(ctx, visible, devices, slot)
			} else if last := written[slot]; last.PodUID == u.PodUID {
				u.Devices = last.Devices // asking takes long, and a start is no time for it
			}
			if unchanged(written[slot], u) {
				continue
			}
			if err := a.cfg.Dir.WriteUsage(slot, u); err != nil {
				a.cfg.Logger.Error("writing what a pod uses", "slot", slot, "error", err)
				continue
			}
			written[slot] = u
		}
		timer.Reset(usagePause(next, took))
	}
}

// usagePause is the time until the next measurement, after one that took so long.
func usagePause(wanted, took time.Duration) time.Duration {
	return max(wanted, min(usageRest*took, usageSlowest))
}

// unchanged tells whether what is written will do for now. Of a container that
// has just begun it never will: that it has used nothing is news.
func unchanged(written, now spool.Usage) bool {
	young := func(c spool.ContainerUsage) bool { return now.Time.Sub(c.Started) < usageFirst+usageInterval }
	if now.Time.Sub(written.Time) >= usageAgain || slices.ContainsFunc(now.Containers, young) {
		return false
	}
	now.Time = written.Time
	return reflect.DeepEqual(written, now)
}

// askDevices asks for the use of a slot's devices. Where they cannot be asked it
// says so, and does not ask again.
func (a *agent) askDevices(ctx context.Context, visible string, devices map[int]string, slot int) []spool.DeviceUsage {
	out, err := a.output(ctx, usage.NvidiaCommand(visible))
	if err != nil {
		a.cfg.Logger.Warn("the use of the devices is not known", "slot", slot, "devices", visible, "error", err)
		delete(devices, slot)
		return nil
	}
	return usage.ParseNvidia(out)
}

// output runs a command of the node and returns what it prints.
func (a *agent) output(ctx context.Context, argv []string) (string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return "", err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("running %s: %w", path, err)
	}
	defer null.Close() //nolint:errcheck // nothing is in it
	r, w, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", path, err)
	}
	proc, err := a.table.Start(process.Spec{
		Path: path, Argv: argv, Env: os.Environ(), Files: []*os.File{null, w, null}, KillGroup: true,
	})
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return "", fmt.Errorf("running %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, deviceTimeout)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-proc.Done():
		case <-ctx.Done(): // a driver that hangs lets nobody die
			_ = proc.Signal(unix.SIGKILL)
		}
	}()
	var out strings.Builder
	if err := process.CopyOutput(&out, r, over, deviceQuiet); err != nil {
		return "", fmt.Errorf("running %s: %w", path, err)
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		return "", fmt.Errorf("%s does not answer: %w", path, ctx.Err())
	}
	if code := process.ExitCode(proc.Status()); code != 0 {
		return "", fmt.Errorf("%s ended with %d: %s", path, code, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}
