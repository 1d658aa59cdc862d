package remoteshell

import (
	"fmt"
	"strings"
	"time"
)

// ttyMode says when to ask for a terminal.
type ttyMode int

const (
	ttyAuto  ttyMode = iota // for a login shell, if standard input is a terminal
	ttyNever                // -T
	ttyAsk                  // -t: if standard input is a terminal
	ttyForce                // -tt
)

// commandLine is what ssh was called with, as far as it matters here. What is
// about keys, ciphers, configuration files, addresses and connection sharing is
// accepted and means nothing: the gang's table and key decide.
type commandLine struct {
	host    string
	command string // the words joined by blanks, as ssh sends them
	// subsystem tells that command names one (-s).
	subsystem bool
	version   bool // -V
	tty       ttyMode
	noStdin   bool // -n
	quiet     bool // -q
	verbose   bool // -v
	logFile   string
	timeout   time.Duration // ConnectTimeout; 0 if not given
	port      string        // -p; "" if not given
	setEnv    []string      // SetEnv: NAME=value
	sendEnv   []string      // SendEnv: patterns of names
	// unsupported is the first option that asks for what this ssh does not do
	// itself.
	unsupported string
}

// The options of ssh(1) with and without a value.
const (
	withValue = "BbcDEeFIiJLlmOopPQRSWw"
	flags     = "1246AaCfGgKkMNnqsTtVvXxYy"
)

// parse reads the words after "ssh". Like OpenSSH it takes options before and
// after the host, up to "--" or the command's first word.
func parse(args []string) (commandLine, error) {
	var c commandLine
	options := true
	for len(args) > 0 {
		word := args[0]
		switch {
		case options && word == "--":
			options = false
			args = args[1:]
		case options && len(word) > 1 && word[0] == '-':
			rest, err := c.option(word[1:], args[1:])
			if err != nil {
				return c, err
			}
			args = rest
		case c.host == "":
			c.host = hostOf(word)
			args = args[1:]
		default:
			c.command = strings.Join(args, " ")
			args = nil
		}
	}
	return c, nil
}

// option reads a group of options such as "-tt" or "-p22" and returns the words
// that follow it.
func (c *commandLine) option(group string, rest []string) ([]string, error) {
	for i, letter := range group {
		switch {
		case strings.ContainsRune(flags, letter):
			c.flag(letter)
		case strings.ContainsRune(withValue, letter):
			value := group[i+1:]
			if value == "" {
				if len(rest) == 0 {
					return nil, fmt.Errorf("option -%c needs a value", letter)
				}
				value, rest = rest[0], rest[1:]
			}
			return rest, c.value(letter, value)
		default:
			return nil, fmt.Errorf("unknown option -%c", letter)
		}
	}
	return rest, nil
}

func (c *commandLine) flag(letter rune) {
	switch letter {
	case 'V':
		c.version = true
	case 'T':
		c.tty = ttyNever
	case 't':
		if c.tty == ttyAsk {
			c.tty = ttyForce
		} else if c.tty != ttyForce {
			c.tty = ttyAsk
		}
	case 'n':
		c.noStdin = true
	case 'q':
		c.quiet = true
	case 'v':
		c.verbose = true
	case 's':
		c.subsystem = true
	case 'f', 'N', 'G':
		c.refuse("-" + string(letter))
	}
}

func (c *commandLine) value(letter rune, value string) error {
	switch letter {
	case 'o':
		return c.configure(value)
	case 'E':
		c.logFile = value
	case 'p':
		c.port = value
	case 'D', 'L', 'O', 'Q', 'R', 'W', 'w':
		c.refuse("-" + string(letter))
	}
	return nil
}

func (c *commandLine) refuse(option string) {
	if c.unsupported == "" {
		c.unsupported = option
	}
}

// hostOf takes the host out of [user@]host and ssh://[user@]host[:port].
func hostOf(word string) string {
	url, isURL := strings.CutPrefix(word, "ssh://")
	host := url[strings.LastIndexByte(url, '@')+1:]
	if isURL {
		host, _, _ = strings.Cut(host, "/")
		if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
			host = host[:colon]
		}
		host = strings.Trim(host, "[]")
	}
	return host
}
