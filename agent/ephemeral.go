package agent

import (
	"fmt"

	"github.com/gangline/gangline/provider/spool"
)

// addEphemeral takes over the ephemeral containers that are new. As with kubelet
// each is started once, and none is changed or taken away.
func (p *pod) addEphemeral(all []spool.ContainerOrders) error {
	for _, c := range all {
		if !isName(c.Name) {
			return fmt.Errorf("ephemeral container %q: this is no name", c.Name)
		}
		if _, known := p.container(c.Name); known {
			continue
		}
		p.ephemeral = append(p.ephemeral, c)
		p.life.AddEphemeral(c)
	}
	return nil
}
