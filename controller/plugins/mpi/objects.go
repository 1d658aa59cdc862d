package mpi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/mpi"
)

const (
	sshVolumeName      = "mpi-ssh-auth"
	hostfileVolumeName = "mpi-hostfile"
	publicKey          = "ssh-publickey" // the Secret's key beside corev1.SSHAuthPrivateKey
)

func secretName(trainJob string) string { return trainJob + "-mpi-ssh-auth" }

func configMapName(trainJob string) string { return trainJob + "-mpi-hostfile" }

// sshVolume lays the keys out as ssh and sshd expect them. The private key is
// called id_rsa, whatever it is: that name every client tries.
func sshVolume(trainJob string) corev1.Volume {
	return corev1.Volume{Name: sshVolumeName, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName:  secretName(trainJob),
		DefaultMode: ptr.To[int32](0o400),
		Items: []corev1.KeyToPath{
			{Key: corev1.SSHAuthPrivateKey, Path: "id_rsa", Mode: ptr.To[int32](0o640)},
			{Key: publicKey, Path: "id_rsa.pub", Mode: ptr.To[int32](0o644)},
			{Key: publicKey, Path: "authorized_keys", Mode: ptr.To[int32](0o644)},
		},
	}}}
}

func hostfileVolume(trainJob string) corev1.Volume {
	return corev1.Volume{Name: hostfileVolumeName, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMapName(trainJob)},
		Items:                []corev1.KeyToPath{{Key: hostfileName, Path: hostfileName, Mode: ptr.To[int32](0o444)}},
	}}}
}

// sshSecret has a key pair that is made when the Secret is, and never again: pods
// that run hold it.
func sshSecret(trainJob *v1alpha1.TrainJob) framework.Component {
	name := secretName(trainJob.Name)
	return framework.Component{
		Kind:   &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: trainJob.Namespace}},
		Policy: framework.Once,
		Object: func() (client.Object, error) {
			private, public, err := newKeys()
			if err != nil {
				return nil, fmt.Errorf("making the SSH keys of TrainJob %s: %w", client.ObjectKeyFromObject(trainJob), err)
			}
			return &corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: framework.ChildMeta(trainJob, name),
				Type:       corev1.SecretTypeSSHAuth,
				Immutable:  ptr.To(true),
				Data:       map[string][]byte{corev1.SSHAuthPrivateKey: private, publicKey: public},
			}, nil
		},
	}
}

// newKeys are an ECDSA key on P-521 as PEM, and its public half as a line of
// authorized_keys.
func newKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	line, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), ssh.MarshalAuthorizedKey(line), nil
}

func hostfileConfigMap(trainJob *v1alpha1.TrainJob, hostfile string) framework.Component {
	name := configMapName(trainJob.Name)
	return framework.Component{
		Kind:   &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: trainJob.Namespace}},
		Policy: framework.Always,
		Object: func() (client.Object, error) {
			return &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: framework.ChildMeta(trainJob, name),
				Data:       map[string]string{hostfileName: hostfile},
			}, nil
		},
	}
}

// maxHostfile is how many bytes fit into a ConfigMap.
const maxHostfile = 1 << 20

// hostfile lists the pods that take ranks, in the order of the runtime's jobs. A
// user may write any number of nodes, so it ends when no ConfigMap could hold it.
func hostfile(info *framework.Info, impl implementation) (string, error) {
	tooMany := fmt.Errorf("the hostfile of so many nodes does not fit into a ConfigMap, which holds %d bytes", maxHostfile)
	var hosts []mpi.Host
	size, procs := 0, int(procsPerNode(info))
	for _, p := range info.PodSets {
		if p.Name != v1alpha1.JobNode && !(p.Name == v1alpha1.JobLauncher && info.LauncherIsNode()) {
			continue
		}
		for endpoint := range p.Endpoints {
			if size += len(endpoint); size > maxHostfile {
				return "", tooMany
			}
			hosts = append(hosts, mpi.Host{Name: endpoint, Slots: procs})
		}
	}
	text := impl.hostfile(hosts)
	if len(text) > maxHostfile {
		return "", tooMany
	}
	return text, nil
}
