package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/spool"
)

// statusSubsystem is the SSH subsystem by which an agent tells others how its pod
// is: one of the words below.
const statusSubsystem = "status@gangline.dev"

const (
	podRunning = "running" // commands start in it
	podWaiting = "waiting" // it is still to come, or its containers are
	podEnded   = "ended"
)

// podState is how the slot's pod is.
func (s *slot) podState(ctx context.Context) (string, error) {
	return ask(ctx, s, func() string {
		switch _, err := s.podBegun(); {
		case err == nil:
			return podRunning
		case errors.Is(err, errNotYet):
			return podWaiting
		}
		return podEnded
	})
}

// serveStatus answers statusSubsystem.
func (s *slot) serveStatus(ctx context.Context, out io.Writer) (int, error) {
	state, err := s.podState(ctx)
	if err == nil {
		_, err = io.WriteString(out, state)
	}
	return 0, err
}

const (
	// answerTimeout bounds one question to another agent.
	answerTimeout = 10 * time.Second
	// agentPatience is how long an agent may not be reached before it counts as
	// gone: one that was started again has another port, of which all learn soon.
	agentPatience = 3 * time.Second
	// podPatience is how long a pod may still be to come. The pods of a gang are
	// started together, and each may have files to fetch.
	podPatience = time.Minute
	// tellAfter is when a user is told what is waited for.
	tellAfter = 5 * time.Second
	askPause  = 200 * time.Millisecond
	// mostQuestions are asked at a time.
	mostQuestions = 64
)

// missingPod is a pod that cannot take ranks.
type missingPod struct {
	pod launcher.Pod
	why string
}

// reachAll makes sure that all pods can take ranks: their agents answer, and they
// run. What cannot change is told at once; pods that are still to come are waited
// for.
func (s *slot) reachAll(ctx context.Context, pods []launcher.Pod, ssh spool.SSH, patience *time.Duration, say func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, ptr.Deref(patience, podPatience))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var mu sync.Mutex
	var missing []missingPod
	waiting := map[string]bool{}
	tell := time.AfterFunc(tellAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if len(waiting) > 0 {
			say("still waiting for " + some(keys(waiting)))
		}
	})
	defer tell.Stop()
	var asking sync.WaitGroup
	places := make(chan struct{}, mostQuestions)
	for _, pod := range pods {
		waiting[pod.Name()] = true
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			why := s.reach(ctx, pod, ssh)
			mu.Lock()
			defer mu.Unlock()
			delete(waiting, pod.Name())
			if why != "" {
				missing = append(missing, missingPod{pod, why})
				giveUp(errHopeless)
			}
		})
	}
	asking.Wait()
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b missingPod) int { return a.pod.Slot - b.pod.Slot })
	return missingError(len(pods), missing)
}

func keys(set map[string]bool) []string {
	var all []string
	for k := range set {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// some lists names for people.
func some(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// missingError says which pods are missing, and what to do.
func missingError(needed int, missing []missingPod) error {
	text := fmt.Sprintf("%d of the %d pods that are to take ranks cannot, so nothing was started:", len(missing), needed)
	for _, m := range missing {
		text += fmt.Sprintf("\n  %s: %s", m.pod.Name(), m.why)
	}
	return errors.New(text + "\nWorkers must run as long as the launcher does (see kubectl describe pod). To run on fewer pods on purpose, name them with --host.")
}

// errHopeless ends the questions when a pod is known to be missing: who else is
// still to come does not matter then.
var errHopeless = errors.New("another pod is missing")

// reach tells why a pod cannot take ranks, "" if it can or does not matter.
func (s *slot) reach(ctx context.Context, pod launcher.Pod, ssh spool.SSH) string {
	began, unbegun := time.Now(), false
	for {
		state, err := s.stateOf(ctx, pod.Slot, ssh)
		var unreachable net.Error
		// What the question before told holds for one that the end of the wait has cut short.
		unbegun = err == nil || errors.Is(err, errSilent) || unbegun && ctx.Err() != nil
		why := ""
		switch {
		case err == nil && state == podRunning, errors.Is(context.Cause(ctx), errHopeless):
			return ""
		case err == nil && state == podEnded:
			return "its pod has ended"
		case errors.Is(err, errSilent) && s.hasPod(pod.Slot):
			why, unbegun = "its agent does not answer", false
		case unbegun:
			why = fmt.Sprintf("its pod has not started within %s", time.Since(began).Round(time.Second))
		case errors.As(err, &unreachable), errors.Is(err, io.EOF), errors.Is(err, sshclient.ErrInterrupted):
			why = fmt.Sprintf("its agent does not answer (%v)", err)
			if time.Since(began) > agentPatience {
				return why
			}
		case ctx.Err() == nil:
			return fmt.Sprintf("its agent does not answer (%v)", err)
		}
		if why == "" {
			why = "its agent does not answer"
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errHopeless) {
				return ""
			}
			return why
		case <-time.After(askPause):
		}
	}
}

// hasPod tells whether a slot's agent has said in the spool that it has a pod: then
// it serves its questions, and if it is silent all the same it has trouble.
func (s *slot) hasPod(k int) bool {
	var status spool.Status
	found, err := spool.Read(s.cfg.Dir.Status(k), &status)
	return err == nil && found && status.Pod != nil
}

// stateOf asks a slot's agent how its pod is.
func (s *slot) stateOf(ctx context.Context, k int, ssh spool.SSH) (string, error) {
	if k == s.index {
		return s.podState(ctx)
	}
	return s.askAgent(ctx, k, ssh, sshclient.Session{Argument: statusSubsystem})
}

// errSilent says that an agent is there and does not speak yet: it has no keys
// before it has had a pod.
var errSilent = errors.New("the agent is silent")

// askAgent asks another slot's agent something by one of our SSH subsystems, and
// returns what it writes.
func (s *slot) askAgent(ctx context.Context, k int, ssh spool.SSH, question sshclient.Session) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	address, err := ask(ctx, s, func() string {
		for _, n := range s.names {
			if n.Slot == k {
				return net.JoinHostPort(n.Address, strconv.Itoa(n.SSHPort))
			}
		}
		return ""
	})
	if err != nil {
		return "", err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("connecting: %w", err)
	}
	client, err := sshclient.New(ctx, conn, sshclient.Credentials{HostPublicKey: ssh.HostPublicKey, ClientKey: ssh.ClientKey})
	if err != nil && ctx.Err() != nil {
		return "", errSilent
	}
	if err != nil {
		return "", err
	}
	defer client.Close() //nolint:errcheck // everything was read
	var answer bytes.Buffer
	question.Request, question.Stdout = "subsystem", &answer
	if _, err := client.Run(ctx, question); err != nil {
		return "", err
	}
	return answer.String(), nil
}
