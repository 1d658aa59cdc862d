package doctor

import (
	"context"

	"github.com/gangline/gangline/agent"
)

// Config is where a doctor is.
type Config struct {
	// Agent is what an agent would have here; AgentError is why it is not all known.
	Agent      agent.Config
	AgentError error
	// Version is this program's.
	Version  string
	Programs Programs
}

// Examine looks at this node alone. spool is a directory in which the agents' files are
// tried; empty for none.
func Examine(ctx context.Context, c Config, spool string) []Finding {
	findings := c.node(ctx, Order{})
	if spool == "" {
		return append(findings, Good(CheckSpool, Info, "not tried: no directory was named"))
	}
	if err := tryFiles(spool); err != nil {
		return append(findings, Bad(CheckSpool, Fail, spoolCure, "%v", err))
	}
	return append(findings, Good(CheckSpool, OK, "%s: hard links and locks work", spool))
}

// node is what can be said of the node without anybody else.
func (c Config) node(ctx context.Context, o Order) []Finding {
	// These first: they take the ends of all child processes.
	root := privateRoot(ctx, c.Agent.PrivateRoot, c.Agent.Runtime)
	tried := runtimes(ctx, o.Runtimes)
	findings := []Finding{version(c.Version, o.Version), kernel(), root, memoryDir(c.Agent.Runtime), scratch(c.Agent, o.Scratch), c.address()}
	seen := -1
	if len(c.Agent.Devices) > 0 || o.GPUs > 0 {
		seen = countNvidia(ctx, c.Programs)
	}
	promised := o.GPUs
	if o.Tasks == 0 && len(c.Agent.Devices) > 0 { // nobody says, so what is bound counts
		promised = boundCount(c.Agent.Devices)
	}
	findings = append(findings, gpus(promised, c.Agent.Devices, seen), findRDMA().judge(), directories(o.Directories))
	findings = append(findings, tried...)
	for _, k := range kinds() {
		if k.check == CheckRuntimes && len(tried) > 0 {
			continue // the site says which it means
		}
		findings = append(findings, k.find(ctx, c.Programs))
	}
	return findings
}

func (c Config) address() Finding {
	if c.AgentError != nil {
		return Bad(CheckAddress, Fail, "set GANGLINE_ADDRESS in the jobs' environment, or give the node's name an address in DNS or /etc/hosts", "%v", c.AgentError)
	}
	return Good(CheckAddress, OK, "%s is %s for other nodes", c.Agent.Node, c.Agent.Address)
}
