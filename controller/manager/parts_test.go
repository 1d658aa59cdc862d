package manager

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/gangline/gangline/controller/trainertest"
)

func TestNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	t.Setenv("POD_NAMESPACE", "")
	assert.Equal(t, "kubeflow-system", Namespace(file), "nobody says")
	require.NoError(t, os.WriteFile(file, []byte("of-the-pod\n"), 0o600))
	assert.Equal(t, "of-the-pod", Namespace(file))
	t.Setenv("POD_NAMESPACE", "said")
	assert.Equal(t, "said", Namespace(file))
}

func TestOnlyTheIdentityOfSecretsIsKept(t *testing.T) {
	full := trainertest.Parse[metav1.PartialObjectMetadata](t, `
apiVersion: v1
kind: Secret
metadata:
  name: mpi
  namespace: team-a
  uid: u
  resourceVersion: "7"
  creationTimestamp: "2026-01-02T03:04:05Z"
  labels: {a: b}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"password":"c2VjcmV0"}}'}
  managedFields: [{manager: kubectl}]
  ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: tj, uid: t, controller: true}]
`)
	kept, err := keepIdentity(full)
	require.NoError(t, err)
	assert.YAMLEq(t, `
apiVersion: v1
kind: Secret
metadata:
  name: mpi
  namespace: team-a
  uid: u
  resourceVersion: "7"
  ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: tj, uid: t, controller: true}]
`, trainertest.YAML(t, kept))

	missed := toolscache.DeletedFinalStateUnknown{Key: "team-a/mpi", Obj: full}
	kept, err = keepIdentity(missed)
	require.NoError(t, err)
	assert.Equal(t, missed, kept)
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	is := map[string]string{}
	for _, e := range entries {
		if content, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			is[e.Name()] = string(content)
		}
	}
	return is
}

func TestFilesAreReplacedTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "directory")
	write := func(cert, key string) {
		require.NoError(t, writeTogether(dir, map[string][]byte{
			corev1.TLSCertKey: []byte(cert), corev1.TLSPrivateKeyKey: []byte(key),
		}))
	}
	link := func() string {
		to, err := os.Readlink(filepath.Join(dir, "..data"))
		require.NoError(t, err)
		return to
	}
	write("c1", "k1")
	assert.Equal(t, map[string]string{"tls.crt": "c1", "tls.key": "k1"}, files(t, dir))
	first := link()
	write("c1", "k1")
	assert.Equal(t, first, link(), "nothing to do")

	write("c2", "k2")
	assert.Equal(t, map[string]string{"tls.crt": "c2", "tls.key": "k2"}, files(t, dir))
	assert.NotEqual(t, first, link())
	assert.NoDirExists(t, filepath.Join(dir, first), "the old ones are gone")

	info, err := os.Stat(filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestPlainFilesAreReplacedToo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("plain"), 0o600))
	require.NoError(t, writeTogether(dir, map[string][]byte{"tls.crt": []byte("new")}))
	assert.Equal(t, map[string]string{"tls.crt": "new"}, files(t, dir))
}

func TestADirectoryThatCannotBeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Error(t, writeTogether(filepath.Join(file, "certificates"), map[string][]byte{"tls.crt": nil}))
}

func TestServingCertificateBeforeThereIsOne(t *testing.T) {
	c := &servingCertificate{dir: t.TempDir()}
	_, err := c.get(nil)
	assert.EqualError(t, err, "there is no serving certificate yet")
	assert.ErrorContains(t, c.load(nil), "without certManagement it must be provided as files in "+c.dir)
	_, err = c.authority()
	assert.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "ca.crt"), nil, 0o600))
	_, err = c.authority()
	assert.EqualError(t, err, "ca.crt is empty")
}
