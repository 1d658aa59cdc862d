package identity

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// userName is what login names look like (useradd(8)): none of them is a path, an option
// or a number. Machines' names, which end in $, are nobody's who runs jobs.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*$`)

// separated are both fields with "_" between them.
var separated = regexp.MustCompile(`^[^{}]*\{[^{}]*\}[^{}]*_[^{}]*\{[^{}]*\}[^{}]*$`)

var errRoot = errors.New("jobs do not run as root")

// longestUser is Linux's bound (useradd(8)).
const longestUser = 32

// systemUsers are accounts of services, as distributions and sites name them. Whoever may
// give a namespace or a ServiceAccount such a name must not become one of them. Slurm's
// own may do with all jobs as it likes.
func systemUsers() []string {
	return []string{
		"root", "toor", "daemon", "bin", "sys", "sync", "adm", "lp", "mail", "news", "uucp", "man", "proxy", "backup", "list", "irc",
		"operator", "games", "ftp", "nobody", "nfsnobody", "www-data", "apache", "nginx", "shutdown", "halt",
		"slurm", "slurmrestd", "munge", "flux", "sshd", "ntp", "chrony", "dbus", "messagebus", "polkitd", "systemd", "syslog",
		"mysql", "mariadb", "postgres", "redis", "ldap", "openldap", "sssd", "named", "bind", "rpc", "rpcuser", "statd", "postfix",
		"docker", "containerd", "kube", "etcd",
	}
}

// IsLoginName tells whether a name is one that people log in with: at most 32 small letters,
// digits, ".", "-" and "_", which is no path, no option and no number.
func IsLoginName(name string) bool {
	return userName.MatchString(name) && !strings.Contains(name, "..") && len(name) <= longestUser
}

// noLoginName is the error about a name, or about a rule's text for names.
func noLoginName(text string) error {
	return fmt.Errorf("%q is no login name: those have at most %d small letters, digits and . _ -, and begin with a letter", text, longestUser)
}

// checkUser checks a login name that a rule's text has given.
func checkUser(name, text string) error {
	switch {
	case text == "":
		return nil
	case name == "root":
		return errRoot
	case !IsLoginName(name):
		return noLoginName(name)
	case name != text && (slices.Contains(systemUsers(), name) || strings.HasPrefix(name, "systemd-")):
		return fmt.Errorf("%s is the name of a system account, which no namespace or ServiceAccount is given", name)
	}
	return nil
}

// checkUserText checks a rule's text for login names. A user that two subjects share by
// accident is worse than none: neither kind of name holds "_", so that keeps them apart.
func checkUserText(text string) error {
	switch {
	case text == "":
		return nil
	case text == "root":
		return errRoot
	case !IsLoginName(fieldPattern.ReplaceAllString(text, "x")):
		return noLoginName(text)
	case strings.Contains(text, fieldNamespace) && strings.Contains(text, fieldServiceAccount) && !separated.MatchString(text):
		return fmt.Errorf("%q may give the same user for two ServiceAccounts; write %s_%s", text, fieldNamespace, fieldServiceAccount)
	}
	return nil
}
