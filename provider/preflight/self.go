package preflight

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/gangline/gangline/agent/doctor"
)

const checkUser = "user"

// wrong tells that nothing of the site can be checked as this user.
func (s Self) wrong() bool { return s.Ordinary && s.UID == 0 || s.Root && s.UID != 0 }

// Self is who runs preflight, as whom the node is to run, and what that must be.
type Self struct {
	Name string
	UID  int
	// Root tells that the node must be root, Ordinary that it must not: all jobs are its
	// own user's.
	Root, Ordinary bool
}

// judgeSelf judges as whom all is checked: each line is true for that user only.
func judgeSelf(s Self) Line {
	who := fmt.Sprintf("%s (uid %d)", s.Name, s.UID)
	const same = "run preflight as the user that gangline-node runs as"
	switch {
	case s.Ordinary && s.UID == 0:
		return bad(thisMachine, checkUser, doctor.Fail, same+": runuser -u USER -- gangline-node preflight ... (for jobs of several users choose another mode of access)",
			"preflight runs as root, and in the access mode own jobs are of the user that gangline-node runs as, which root must not be")
	case s.Root && s.UID != 0:
		return bad(thisMachine, checkUser, doctor.Fail, same+": in the access mode setuid that is root", "preflight runs as %s, who cannot act for others", who)
	case s.Ordinary:
		return good(thisMachine, checkUser, doctor.Info, "all is checked as %s, as whom gangline-node is to run; all jobs are that user's", who)
	}
	return good(thisMachine, checkUser, doctor.Info, "all is checked as %s, as whom gangline-node is to run", who)
}

// myName is who runs this.
func myName() string {
	me, err := user.Current()
	if err != nil {
		return "uid " + strconv.Itoa(os.Geteuid())
	}
	return me.Username
}
