package rest

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// userMark stands for the user's name in the token file's.
const userMark = "{user}"

// user is an HPC user's name.
type user string

// asker is the one who asks about all jobs and nodes, whatever the name.
const asker user = ""

// tokens are where the users' tokens are.
type tokens struct {
	// file holds userMark where there is one for each user.
	file string
	// user is whom the one token is for; empty for whom it names.
	user  string
	asker string
}

// proof is what slurmrestd is shown.
type proof struct{ user, text string }

func (c Config) checkUsers() error {
	many := strings.Contains(c.TokenFile, userMark)
	switch {
	case many && c.Asker == "":
		return errors.New("there is a token for each user, and none is named to ask about all jobs and nodes: name one (asker)")
	case many && c.User != "":
		return fmt.Errorf("there is a token for each user, and so none is for %s alone: name no user, or take {user} out of the token file's name", c.User)
	}
	return nil
}

// of is a user's proof as of now.
func (ts tokens) of(as user, now time.Time) (proof, error) {
	if !strings.Contains(ts.file, userMark) {
		return ts.one(as, now)
	}
	name := cmp.Or(string(as), ts.asker)
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return proof{}, fmt.Errorf("%q is no user's name", name)
	}
	file := strings.ReplaceAll(ts.file, userMark, name)
	t, err := readToken(file, now)
	if err != nil {
		return proof{}, err
	}
	if t.user != "" && t.user != name {
		return proof{}, fmt.Errorf("the token in %s is %s's, not %s's: put %s's own there (scontrol token username=%s)", file, t.user, name, name, name)
	}
	return proof{user: name, text: t.text}, nil
}

// one is the proof where there is one token.
func (ts tokens) one(as user, now time.Time) (proof, error) {
	t, err := readToken(ts.file, now)
	if err != nil {
		return proof{}, err
	}
	name := cmp.Or(ts.user, t.user)
	if name == "" {
		return proof{}, fmt.Errorf("the token in %s names no user: name one in the configuration", ts.file)
	}
	if as != asker && string(as) != name {
		return proof{}, fmt.Errorf("the token in %s is %s's, and there is none for %s: put {user} in the token file's name and a token for each user in its place", ts.file, name, as)
	}
	return proof{user: name, text: t.text}, nil
}
