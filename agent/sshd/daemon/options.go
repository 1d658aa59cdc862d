package daemon

import (
	"fmt"
	"strconv"
	"strings"
)

// The options of sshd(8) with and without a value.
const (
	withValue = "CEbcfghkopu"
	flags     = "46DGQRTdeiqrtV"
)

// options is a command line of sshd.
type options struct {
	configFile string
	settings   settings // of -p, -h and -o
	// foreground: it does not become a daemon (-D, -d).
	foreground bool
	debug      bool // -d
	quiet      bool // -q
	logFile    string
	check      bool // -t, -T, -G: only the configuration is to be looked at
	version    bool
}

// parseOptions reads the words after "sshd".
func parseOptions(args []string) (options, error) {
	var o options
	for len(args) > 0 {
		group := args[0]
		if len(group) < 2 || group[0] != '-' {
			return o, fmt.Errorf("extra argument %s", group)
		}
		args = args[1:]
		for i, letter := range group[1:] {
			if !strings.ContainsRune(withValue, letter) {
				if err := o.flag(letter); err != nil {
					return o, err
				}
				continue
			}
			value := group[i+2:]
			if value == "" {
				if len(args) == 0 {
					return o, fmt.Errorf("option -%c needs a value", letter)
				}
				value, args = args[0], args[1:]
			}
			if err := o.value(letter, value); err != nil {
				return o, err
			}
			break
		}
	}
	return o, nil
}

func (o *options) flag(letter rune) error {
	switch letter {
	case 'D':
		o.foreground = true
	case 'd':
		o.foreground, o.debug = true, true
	case 'q':
		o.quiet = true
	case 't', 'T', 'G':
		o.check = true
	case 'V':
		o.version = true
	case 'i':
		return fmt.Errorf("option -i is not supported: there is no inetd")
	default:
		if !strings.ContainsRune(flags, letter) {
			return fmt.Errorf("unknown option -%c", letter)
		}
	}
	return nil
}

func (o *options) value(letter rune, value string) error {
	switch letter {
	case 'f':
		o.configFile = value
	case 'E':
		o.logFile = value
	case 'h':
		o.settings.hostKeys = append(o.settings.hostKeys, value)
	case 'p':
		port, err := parsePort(value)
		if err != nil {
			return err
		}
		o.settings.ports = append(o.settings.ports, port)
	case 'o':
		return o.settings.read(value)
	}
	return nil
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%q is no port", text)
	}
	return int(port), nil
}
