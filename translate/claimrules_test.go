package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRulesForClaimsAreChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		rule ClaimRule
		want string
	}{
		"no condition":                    {ClaimRule{Path: "/a"}, "one of storageClass, csiDriver, nfs and hostPath"},
		"a default with conditions":       {ClaimRule{Default: true, StorageClass: "c", Path: "/a"}, "it has no conditions"},
		"a mode that is none":             {ClaimRule{StorageClass: "c", Path: "/a", Create: true, Mode: "rwx"}, "octal digits"},
		"a mode with setuid":              {ClaimRule{StorageClass: "c", Path: "/a", Create: true, Mode: "4755"}, "without setuid"},
		"a mode of what is not made":      {ClaimRule{StorageClass: "c", Path: "/a", Mode: "0755"}, "needs create: true"},
		"no path":                         {ClaimRule{StorageClass: "c"}, "path must be absolute"},
		"a relative path":                 {ClaimRule{StorageClass: "c", Path: "a"}, "path must be absolute"},
		"a path that climbs":              {ClaimRule{StorageClass: "c", Path: "/a/../b"}, "without // and .."},
		"a field that does not exist":     {ClaimRule{StorageClass: "c", Path: "/a/{name}"}, "there is no field {name}, but {namespace}, {claim}"},
		"a name that two claims may have": {ClaimRule{StorageClass: "c", Path: "/a/{namespace}-{claim}"}, "write a / between"},
		"a field that is not closed":      {ClaimRule{StorageClass: "c", Path: "/a/{claim"}, "not closed"},
		"everything, by fields":           {ClaimRule{StorageClass: "c", Path: "/{claim}"}, "must begin with a directory"},
		"a handle without a driver":       {ClaimRule{StorageClass: "c", Path: "/a/{volumeHandle}"}, "{volumeHandle} needs csiDriver"},
		"a part of nothing":               {ClaimRule{StorageClass: "c", Path: "/a/{subdir}"}, "{subdir} needs nfs or hostPath"},
		"an export without a server":      {ClaimRule{NFS: &NFSExport{Path: "/a"}, Path: "/a"}, "nfs needs a server"},
		"an export and a path at once":    {ClaimRule{NFS: &NFSExport{"s", "/a"}, HostPath: "/b", Path: "/a"}, "not both"},
		"a relative path of the nodes'":   {ClaimRule{HostPath: "b", Path: "/a"}, "hostPath must be an absolute path"},
	} {
		t.Run(name, func(t *testing.T) { assert.ErrorContains(t, tc.rule.Validate(), tc.want) })
	}
	usual := ClaimRule{Default: true, Path: "/a/{claim}"}
	assert.NoError(t, ValidateClaimRules([]ClaimRule{{StorageClass: "c", Path: "/b"}, usual}))
	assert.ErrorContains(t, ValidateClaimRules([]ClaimRule{usual, {StorageClass: "c", Path: "/b"}}), "put it last")
	assert.Equal(t, "/a/b", ClaimRule{Path: "/a/b/x-{claim}"}.prefix(), "a name that begins alike is no directory")
}
