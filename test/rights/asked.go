package rights

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Asked is what one user asked for.
type Asked struct {
	// Allowed was asked for and granted, Refused was not.
	Allowed, Refused []Right
}

// The annotation with which the API server says how it has decided.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	forbidden          = "forbid"
)

// event is what we read of an audit.k8s.io/v1 Event.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		Namespace   string `json:"namespace"`
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// Read tells by users what they asked for, from an audit log. Requests that are for
// no resource, such as discovery, do not count: everybody may make them.
func Read(log io.Reader) (map[string]Asked, error) {
	allowed, refused := map[string]map[Right]bool{}, map[string]map[Right]bool{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if err == io.EOF { // what is behind the last newline is not whole
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.ObjectRef == nil || e.ObjectRef.Resource == "" {
			continue
		}
		into := allowed
		if e.Annotations[decisionAnnotation] == forbidden {
			into = refused
		}
		if into[e.User.Username] == nil {
			into[e.User.Username] = map[Right]bool{}
		}
		into[e.User.Username][e.right()] = true
	}
	all := map[string]Asked{}
	for user := range allowed {
		all[user] = Asked{}
	}
	for user := range refused {
		all[user] = Asked{}
	}
	for user := range all {
		all[user] = Asked{
			Allowed: sorted(slices.Collect(maps.Keys(allowed[user]))),
			Refused: sorted(slices.Collect(maps.Keys(refused[user]))),
		}
	}
	return all, nil
}

func (e event) right() Right {
	o := e.ObjectRef
	r := Right{Namespace: o.Namespace, Verb: e.Verb, Group: o.APIGroup, Resource: o.Resource, Name: o.Name}
	if o.Subresource != "" {
		r.Resource += "/" + o.Subresource
	}
	return r
}
