package slurm

import (
	"strings"

	"github.com/gangline/gangline/hostlist"
)

// LeafSwitches reads "scontrol show topology": the leaf switch of each node. A line that
// describes something else is passed over.
func LeafSwitches(out string) (map[string]string, error) {
	leaves := map[string]string{}
	for line := range strings.Lines(out) {
		fields := map[string]string{}
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			fields[key] = value
		}
		if fields["SwitchName"] == "" || fields["Level"] != "0" {
			continue
		}
		hosts, err := hostlist.Expand(fields["Nodes"])
		if err != nil {
			return nil, err
		}
		for _, host := range hosts {
			leaves[host] = fields["SwitchName"]
		}
	}
	return leaves, nil
}
