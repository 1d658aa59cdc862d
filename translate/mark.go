package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// Mark is in the names of all allocations of one virtual node of one cluster. It
// tells its jobs from those of others that the same user runs.
func (n Names) Mark() string {
	sum := sha256.Sum256([]byte(n.Cluster + "\x00" + n.Node))
	return hex.EncodeToString(sum[:5])
}

// marked finds the mark in an allocation's name (see AllocationName).
var marked = regexp.MustCompile(`-([0-9a-f]{10})-[0-9a-f]{10}-[0-9]+$`)

// Own tells whether an allocation's name, which is its job's too, bears the mark.
func (n Names) Own(allocation string) bool {
	found := marked.FindStringSubmatch(allocation)
	return found != nil && found[1] == n.Mark()
}
