package provider

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/provider/spool"
)

// keySource makes the SSH keys of an allocation, and the node's proofs of what it has
// written, from one secret of the node. None is ever stored: a restarted node, or the one
// that takes over, makes the same again.
type keySource struct {
	secret []byte
}

// secretKey is the key of the seed within the node's Secret.
const secretKey = "seed"

// loadKeySource reads the node's Secret, and creates it the first time.
func loadKeySource(ctx context.Context, clientset kubernetes.Interface, namespace, node string) (keySource, error) {
	secrets := clientset.CoreV1().Secrets(namespace)
	name := "gangline-node-" + node
	have, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		seed := make([]byte, 32)
		if _, err := rand.Read(seed); err != nil {
			return keySource{}, fmt.Errorf("making the node's seed: %w", err)
		}
		have, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Data:       map[string][]byte{secretKey: seed},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			have, err = secrets.Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return keySource{}, fmt.Errorf("creating Secret %s/%s for the node's seed: %w", namespace, name, err)
		}
	} else if err != nil {
		return keySource{}, fmt.Errorf("reading Secret %s/%s with the node's seed: %w", namespace, name, err)
	}
	if len(have.Data[secretKey]) < 32 {
		return keySource{}, fmt.Errorf("the Secret %s/%s has no seed of 32 bytes under %q: delete it while no pod runs, and it is made anew", namespace, name, secretKey)
	}
	return keySource{secret: have.Data[secretKey]}, nil
}

// keys are an allocation's.
func (k keySource) keys(allocation string) (mpi.Keys, error) {
	keys, err := mpi.DeriveKeys(k.secret, allocation)
	if err != nil {
		return mpi.Keys{}, fmt.Errorf("making the keys of %s: %w", allocation, err)
	}
	return keys, nil
}

// ssh is the same as an agent gets it.
func (k keySource) ssh(allocation string) (spool.SSH, error) {
	keys, err := k.keys(allocation)
	return spool.SSH{
		HostKey:         keys.HostPrivate,
		HostPublicKey:   keys.HostPublic,
		ClientKey:       keys.ClientPrivate,
		ClientPublicKey: keys.ClientPublic,
	}, err
}

// seal is the node's proof that it has written what a gang.json says of whose it is. A
// user who could make up allocations would get the orders of others' pods.
func (k keySource) seal(g spool.Gang) string {
	return k.proof("gang.json", g.Allocation, g.Key, strconv.Itoa(g.Generation), g.Cluster, g.Node, g.User,
		g.Owner, g.Namespace, g.OwnerName, g.OwnerUID)
}

// sealPod is the node's proof that it has accepted a pod as a user's: the pod's author can
// write that on it too. It is good for that pod alone.
func (k keySource) sealPod(pod types.UID, user string) string {
	return k.proof("pod", string(pod), user)
}

// proof is what nobody can make who does not have the seed. what keeps the kinds apart.
func (k keySource) proof(what string, parts ...string) string {
	sum := hmac.New(sha256.New, k.secret)
	for _, part := range append([]string{what}, parts...) {
		fmt.Fprintf(sum, "%d:%s,", len(part), part) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil))
}
