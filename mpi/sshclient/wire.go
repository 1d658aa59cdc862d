package sshclient

// Size is a terminal's size in characters.
type Size struct {
	Columns, Rows uint16
}

// PTY asks for a terminal.
type PTY struct {
	Term string
	Size
}

// The messages of RFC 4254 that both sides marshal.
type (
	// PTYRequest is "pty-req" (section 6.2); Width and Height are in pixels.
	PTYRequest struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	// WindowChange is "window-change" (section 6.7).
	WindowChange struct {
		Columns, Rows, Width, Height uint32
	}
	// SetEnv is "env" (section 6.4).
	SetEnv struct {
		Name, Value string
	}
	// Text is the payload of the requests that have one string: "exec",
	// "subsystem", "signal" and those of RequestExec and RequestError.
	Text struct {
		Value string
	}
	// ExitStatus is "exit-status" (section 6.10).
	ExitStatus struct {
		Status uint32
	}
	// DirectTCPIP is the payload of the channel "direct-tcpip" (section 7.2).
	DirectTCPIP struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
)

// Requests of our own, named as RFC 4250 (section 4.6.1) asks for.
const (
	// RequestExec starts a command in a container. Its text is an Exec as JSON.
	RequestExec = "exec@gangline.dev"
	// RequestError tells the client in place of an exit status why no command
	// was run.
	RequestError = "error@gangline.dev"
)

// Exec is what RequestExec asks for: an argument vector, which no shell reads.
type Exec struct {
	Container string   `json:"container"`
	Argv      []string `json:"argv"`
	// Attach, if set, joins the session to the container's own process; there is
	// no Argv then.
	Attach *Attach `json:"attach,omitempty"`
}

// Attach is how a session joins a process that runs already.
type Attach struct {
	// Stdin tells that the session's input is meant for the process.
	Stdin bool `json:"stdin,omitempty"`
}
