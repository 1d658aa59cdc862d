package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/provider/spool"
)

// lookEvery is the pause between two looks at the spool, which tells no events from
// other nodes.
const lookEvery = 200 * time.Millisecond

// maxPeers is how many other nodes each doctor tries: the next ones in the ring of all.
const maxPeers = 8

// doctor is one task of a preflight job.
type doctor struct {
	Config
	dir    spool.Dir
	task   int
	client ssh.Signer
	report Report
}

// Serve examines this node as a task of a preflight job, tells what it finds in the
// spool or, where that cannot be written, as a line of output, and stays until all has
// been heard. An error says that not even that was possible.
func Serve(ctx context.Context, c Config, output io.Writer) error {
	d := &doctor{Config: c, dir: c.Agent.Dir, task: c.Agent.Task}
	d.report = Report{Task: d.task, Node: c.Agent.Node}
	if f := spoolDir(string(d.dir)); f.Status != OK {
		d.report.Findings = append([]Finding{f}, c.node(ctx, Order{})...)
		return d.say(output)
	} else {
		d.report.Findings = append(d.report.Findings, f)
	}
	var order Order
	if found, err := spool.Read(OrderFile(d.dir), &order); err != nil || !found {
		d.add(Bad(CheckSpool, Fail, spoolCure, "%s cannot be read on this node (found %t, %v)", OrderFile(d.dir), found, err))
		return d.say(output)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(order.LifeSeconds)*time.Second)
	defer cancel()
	if d.task == 0 {
		if lock, err := holdLock(d.dir); err == nil {
			defer lock.Close() //nolint:errcheck // it frees the lock
		}
	}
	host, err := NewKey()
	if err == nil {
		d.client, err = NewKey()
	}
	if err != nil {
		return err
	}
	service := newService(host)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":0")
	if err != nil {
		return fmt.Errorf("opening a port: %w", err)
	}
	defer listener.Close() //nolint:errcheck // nothing is lost with it
	if err := service.admit(order.ClientKey); err != nil {
		d.add(Bad(CheckSpool, Fail, spoolCure, "%s: %v", OrderFile(d.dir), err))
	}
	go service.serve(listener)
	if err := d.hello(listener, host); err != nil {
		d.add(Bad(CheckSpool, Fail, spoolCure, "%v", err))
		return d.say(output)
	}
	d.report.Findings = append(d.report.Findings, d.node(ctx, order)...)
	d.meet(ctx, service, order)
	if err := d.say(output); err != nil {
		return err
	}
	d.stay(ctx)
	return nil
}

func (d *doctor) add(f Finding) { d.report.Findings = append(d.report.Findings, f) }

// hello says where this doctor can be asked.
func (d *doctor) hello(l net.Listener, host ssh.Signer) error {
	port, err := strconv.Atoi(l.Addr().String()[strings.LastIndex(l.Addr().String(), ":")+1:])
	if err != nil {
		return fmt.Errorf("reading the own port: %w", err)
	}
	h := Hello{
		Status: spool.Status{Version: spool.Version, Agent: spool.Agent{
			JobID: d.Agent.JobID, Node: d.Agent.Node, Address: d.Agent.Address, SSHPort: port, Started: time.Now(),
		}},
		HostKey:   ssh.MarshalAuthorizedKey(host.PublicKey()),
		ClientKey: ssh.MarshalAuthorizedKey(d.client.PublicKey()),
	}
	return spool.Write(d.dir.Status(d.task), h)
}

// meet tries the other doctors: their SSH services, a claim that one only can have, and
// the lock that the first one holds.
func (d *doctor) meet(ctx context.Context, s *service, o Order) {
	peers, missing := d.wait(ctx, s, o)
	err := spool.Dir(d.dir.Slot(0)).TakeClaim(spool.Claim{JobID: strconv.Itoa(d.task), Host: d.Agent.Node, Acquired: time.Now()})
	d.report.Claimed = err == nil
	if err != nil && !errors.Is(err, spool.ErrClaimed) {
		d.add(Bad(CheckSpool, Fail, spoolCure, "a claim cannot be taken: %v", err))
	}
	if d.task != 0 {
		if _, there := peers[0]; there {
			d.report.LockHeld = lockHeld(d.dir)
		}
	}
	if len(missing) > 0 {
		d.add(Bad(CheckPeers, Fail, "look at what is said of the nodes that are missing, and whether the spool shows each node what the others write",
			"nothing was heard in the spool of tasks %s of %d within %d s", numbers(missing), o.Tasks, o.PeerSeconds))
	}
	if len(peers) > 0 || len(missing) == 0 {
		d.add(d.callPeers(ctx, peers, o.Tasks))
	}
}

// wait waits until all doctors have said hello, and lets each in.
func (d *doctor) wait(ctx context.Context, s *service, o Order) (peers map[int]Hello, missing []int) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.PeerSeconds)*time.Second)
	defer cancel()
	peers = map[int]Hello{}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		missing = nil
		for t := range o.Tasks {
			if _, known := peers[t]; known || t == d.task {
				continue
			}
			var h Hello
			if found, err := spool.Read(d.dir.Status(t), &h); err != nil || !found || s.admit(h.ClientKey) != nil {
				missing = append(missing, t)
				continue
			}
			peers[t] = h
		}
		if len(missing) == 0 {
			return peers, nil
		}
		select {
		case <-ctx.Done():
			return peers, missing
		case <-ticker.C:
		}
	}
}

// callPeers shakes hands with the next ones in the ring.
func (d *doctor) callPeers(ctx context.Context, peers map[int]Hello, tasks int) Finding {
	var tried []doctorAt
	for i := 1; i < tasks && len(tried) < maxPeers; i++ {
		if h, there := peers[(d.task+i)%tasks]; there {
			tried = append(tried, doctorAt{hello: h})
		}
	}
	var calls sync.WaitGroup
	for i := range tried {
		calls.Go(func() { tried[i].err = d.callPatiently(ctx, tried[i].hello) })
	}
	calls.Wait()
	var failed []string
	for _, at := range tried {
		if at.err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", at.hello.Agent.Node, at.err))
		}
	}
	switch {
	case len(failed) > 0:
		return Bad(CheckPeers, Fail, "let HPC nodes reach each other's unprivileged TCP ports (firewall); where a node has several networks, set GANGLINE_ADDRESS in the jobs' environment to its address on the right one",
			"%d of %d nodes cannot be reached: %s", len(failed), len(tried), strings.Join(failed, "; "))
	case len(tried) == 0:
		return Good(CheckPeers, Info, "not tried: the job has one node only")
	}
	return Good(CheckPeers, OK, "%d of %d others were tried, and all answered", len(tried), tasks-1)
}

// doctorAt is a peer, and how it could not be reached.
type doctorAt struct {
	hello Hello
	err   error
}

// callTimeout bounds the calls of a peer.
const callTimeout = 10 * time.Second

// callPatiently calls a peer until it answers: it may not have seen this doctor's key yet.
func (d *doctor) callPatiently(ctx context.Context, h Hello) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		err := d.call(ctx, h)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

func (d *doctor) call(ctx context.Context, h Hello) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(h.Agent.Address, strconv.Itoa(h.Agent.SSHPort)))
	if err != nil {
		return err
	}
	_, err = Ask(ctx, conn, h.HostKey, d.client)
	return err
}

// say tells what was found.
func (d *doctor) say(output io.Writer) error {
	d.report.Written = time.Now()
	err := spool.Write(ReportFile(d.dir, d.task), d.report)
	if err == nil {
		return nil
	}
	data, encodeErr := json.Marshal(d.report)
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	if _, err := fmt.Fprintf(output, "%s%s\n", Mark, data); err != nil {
		return fmt.Errorf("telling what was found: %w", err)
	}
	return nil
}

// stay stays until all has been heard.
func (d *doctor) stay(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(DoneFile(d.dir)); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// boundCount is how many devices the variables name.
func boundCount(variables map[string]string) int {
	n := 0
	for _, v := range variables {
		n = max(n, len(strings.Split(v, ",")))
	}
	return n
}

func numbers(list []int) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
