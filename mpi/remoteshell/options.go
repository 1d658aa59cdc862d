package remoteshell

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// configure reads an option of ssh_config(5) as given after -o: "Key=value" or
// "Key value". As there, the first value of a key counts.
func (c *commandLine) configure(option string) error {
	option = strings.TrimSpace(option)
	end := strings.IndexAny(option, "= \t")
	if end < 0 {
		return fmt.Errorf("option -o %s has no value", option)
	}
	value := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(option[end:]), "="))
	switch key := strings.ToLower(option[:end]); key {
	case "connecttimeout":
		timeout, err := parseTime(value)
		if err != nil {
			return fmt.Errorf("option -o %s: %w", option, err)
		}
		if c.timeout == 0 {
			c.timeout = timeout
		}
	case "setenv":
		entries, err := words(value)
		if err != nil {
			return fmt.Errorf("option -o %s: %w", option, err)
		}
		for _, entry := range entries {
			if strings.Index(entry, "=") < 1 {
				return fmt.Errorf("option -o %s: %q is not NAME=value", option, entry)
			}
		}
		c.setEnv = append(c.setEnv, entries...)
	case "sendenv":
		c.sendEnv = append(c.sendEnv, strings.Fields(value)...)
	case "requesttty":
		mode, known := map[string]ttyMode{"no": ttyNever, "false": ttyNever, "yes": ttyAsk, "true": ttyAsk, "force": ttyForce, "auto": ttyAuto}[strings.ToLower(value)]
		if !known {
			return fmt.Errorf("option -o %s: yes, no, force or auto", option)
		}
		if c.tty == ttyAuto {
			c.tty = mode
		}
	case "stdinnull":
		c.noStdin = c.noStdin || strings.EqualFold(value, "yes")
	case "loglevel":
		c.quiet = c.quiet || strings.EqualFold(value, "QUIET") || strings.EqualFold(value, "FATAL")
	case "localforward", "remoteforward", "dynamicforward", "forkafterauthentication", "remotecommand":
		if !strings.EqualFold(value, "no") && !strings.EqualFold(value, "none") {
			c.refuse("-o " + option[:end])
		}
	}
	return nil
}

// parseTime reads a time of ssh_config(5): seconds, or numbers with units such as
// "1h30m". "none" and 0 leave the default.
func parseTime(s string) (time.Duration, error) {
	if strings.EqualFold(s, "none") {
		return 0, nil
	}
	var total time.Duration
	for rest := s; ; {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 0 {
			digits = len(rest)
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time", s)
		}
		unit := time.Second
		if rest = rest[digits:]; rest != "" {
			var known bool
			unit, known = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[rest[0]|0x20]
			if !known {
				return 0, fmt.Errorf("%q is not a time", s)
			}
			rest = rest[1:]
		}
		total += time.Duration(n) * unit
		if rest == "" {
			return total, nil
		}
	}
}

// words splits at blanks outside of double quotes, which it removes.
func words(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	quoted, started := false, false
	for _, r := range s {
		switch {
		case r == '"':
			quoted, started = !quoted, true
		case !quoted && (r == ' ' || r == '\t'):
			if started {
				out = append(out, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote in %q does not end", s)
	}
	if started {
		out = append(out, word.String())
	}
	return out, nil
}

// env is the environment to send: what SetEnv gives, and what SendEnv's patterns
// choose of ours; and what is sent unasked.
func (c commandLine) env(environ []string) []string {
	out := append([]string(nil), c.setEnv...)
	patterns := append(carried(environ), c.sendEnv...)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		for _, pattern := range patterns {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				out = append(out, entry)
				break
			}
		}
	}
	return out
}

// carried are the names of the variables that are sent unasked.
func carried(environ []string) []string {
	names := []string{PatienceVariable}
	for _, entry := range environ {
		if list, ok := strings.CutPrefix(entry, CarryVariable+"="); ok {
			names = append(append(names, CarryVariable), strings.Split(list, ",")...)
		}
	}
	return names
}

// Patience is what an environment says of it, or else the default.
func Patience(environ []string, otherwise time.Duration) time.Duration {
	for _, entry := range environ {
		if text, ok := strings.CutPrefix(entry, PatienceVariable+"="); ok {
			if d, err := time.ParseDuration(text); err == nil && d > 0 {
				otherwise = d
			}
		}
	}
	return otherwise
}
