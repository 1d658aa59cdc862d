package launcher

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseHosts reads the value of --host: names with commas between them, each
// with a number of slots or not. A name that comes again has one more.
func ParseHosts(text string) ([]Host, error) {
	var all []Host
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		host, err := hostOf(word)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(word, ":") {
			host.Slots = 1
		}
		all = merge(all, host)
	}
	return all, nil
}

// ParseHostfile reads a hostfile of any implementation: "name slots=n", "name:n"
// or "name", and comments after "#".
func ParseHostfile(text string) ([]Host, error) {
	var all []Host
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		host, err := hostOf(words[0])
		if err != nil {
			return nil, err
		}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			if key == "slots" || key == "count" {
				if host.Slots, err = slots(value); err != nil {
					return nil, fmt.Errorf("%s: %w", host.Name, err)
				}
			}
		}
		all = merge(all, host)
	}
	return all, nil
}

// hostOf reads [user@]name[:slots].
func hostOf(word string) (Host, error) {
	name, number, counted := strings.Cut(word[strings.LastIndexByte(word, '@')+1:], ":")
	h := Host{Name: strings.TrimSuffix(strings.ToLower(name), ".")}
	if !counted || number == "*" || number == "auto" {
		return h, nil
	}
	var err error
	if h.Slots, err = slots(number); err != nil {
		return h, fmt.Errorf("%s: %w", h.Name, err)
	}
	return h, nil
}

// maxSlots is more than any host has, and so few that a sum is still a number.
const maxSlots = 1 << 30

func slots(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxSlots {
		return 0, fmt.Errorf("%q is no number of slots", s)
	}
	return n, nil
}

// merge adds a host, or its slots where it is listed already. A host that is listed
// again stands for one slot each time that it does not say a number, as with Open MPI.
func merge(all []Host, h Host) []Host {
	for i := range all {
		if all[i].Name == h.Name {
			all[i].Slots = max(all[i].Slots, 1) + max(h.Slots, 1)
			return all
		}
	}
	return append(all, h)
}
