package daemon

import (
	"bytes"
	"fmt"
	"net"
	"strings"
)

// defaultPort is that of Kubeflow's images. sshd's own, 22, is not for an ordinary
// user.
const defaultPort = 2222

// settings is what counts here of sshd_config(5).
type settings struct {
	ports          []int
	addresses      []string // of ListenAddress: host, host:port or [host]:port
	hostKeys       []string
	authorizedKeys []string // files; nil where nothing is said
}

// readFile reads a configuration file's text, up to its first Match.
func (s *settings) readFile(text []byte) error {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if strings.EqualFold(words[0], "match") {
			return nil
		}
		if err := s.read(string(line)); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// read reads a line, "Keyword arguments" or "Keyword=arguments".
func (s *settings) read(line string) error {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, "= \t")
	if end < 0 {
		return fmt.Errorf("%s has no value", line)
	}
	var words []string
	for _, word := range strings.Fields(strings.TrimPrefix(strings.TrimSpace(line[end:]), "=")) {
		if strings.HasPrefix(word, "#") {
			break
		}
		words = append(words, strings.Trim(word, `"`))
	}
	if len(words) == 0 {
		return fmt.Errorf("%s has no value", line)
	}
	switch strings.ToLower(line[:end]) {
	case "port":
		port, err := parsePort(words[0])
		if err != nil {
			return err
		}
		s.ports = append(s.ports, port)
	case "listenaddress":
		s.addresses = append(s.addresses, words[0])
	case "hostkey":
		s.hostKeys = append(s.hostKeys, words[0])
	case "authorizedkeysfile":
		if s.authorizedKeys == nil { // the first one counts
			s.authorizedKeys = words
		}
	}
	return nil
}

// merge adds what a file says to what the command line said, which comes first.
func (s settings) merge(file settings) settings {
	if len(s.ports) == 0 {
		s.ports = file.ports
	}
	if s.authorizedKeys == nil {
		s.authorizedKeys = file.authorizedKeys
	}
	s.addresses = append(s.addresses, file.addresses...)
	s.hostKeys = append(s.hostKeys, file.hostKeys...)
	return s
}

// listen are the addresses to listen on, "host:port" with an empty host for all.
func (s settings) listen() []string {
	ports := s.ports
	if len(ports) == 0 {
		ports = []int{defaultPort}
	}
	hosts := s.addresses
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	var all []string
	for _, host := range hosts {
		if h, p, err := net.SplitHostPort(host); err == nil {
			all = append(all, net.JoinHostPort(h, p))
			continue
		}
		for _, port := range ports {
			all = append(all, net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(port)))
		}
	}
	return all
}

// expand replaces the tokens of AuthorizedKeysFile (%h, %u, %%), and takes a
// relative path from the home directory.
func expand(file, home, user string) string {
	file = strings.NewReplacer("%%", "%", "%h", home, "%u", user).Replace(file)
	if !strings.HasPrefix(file, "/") {
		return home + "/" + file
	}
	return file
}
