package rendezvous

import "strings"

// endpoint is "host", "host:port" or "scheme://host:port/path". A part that is
// missing is empty.
type endpoint struct {
	scheme, host, port, path string
}

// eachEndpoint changes items of a list and returns it. What is not changed stays to
// the letter.
func eachEndpoint(list string, change func(*endpoint)) string {
	items := strings.Split(list, ",")
	for i, item := range items {
		e := parse(item)
		before := e
		if change(&e); e != before {
			items[i] = e.String()
		}
	}
	return strings.Join(items, ",")
}

func parse(text string) endpoint {
	var e endpoint
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		e.scheme, text = scheme, rest
	}
	if i := strings.IndexByte(text, '/'); i >= 0 {
		text, e.path = text[:i], text[i:]
	}
	e.host = text
	// More than one colon is an address of IPv6 without a port.
	if host, port, ok := strings.Cut(text, ":"); ok && !strings.Contains(port, ":") {
		e.host, e.port = host, port
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		if host, port, ok := strings.Cut(inner, "]"); ok && (port == "" || port[0] == ':') {
			e.host, e.port = host, strings.TrimPrefix(port, ":")
		}
	}
	return e
}

// name is the host as tables have it.
func (e endpoint) name() string { return strings.ToLower(strings.TrimSuffix(e.host, ".")) }

func (e endpoint) String() string {
	text := e.host
	if strings.Contains(text, ":") && (e.port != "" || e.scheme != "") {
		text = "[" + text + "]"
	}
	if e.port != "" {
		text += ":" + e.port
	}
	if e.scheme != "" {
		text = e.scheme + "://" + text
	}
	return text + e.path
}
