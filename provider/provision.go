package provider

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// The reasons of the Events of claims, in the words of Kubernetes' external provisioners.
const (
	reasonProvisioned        = "ProvisioningSucceeded"
	reasonProvisioningFailed = "ProvisioningFailed"
)

// provisioner makes PersistentVolumes for claims of classes that name it, and takes them
// away when their claims are gone. It makes no directory: that is the HPC user's, by the
// site's rules for claims.
type provisioner struct {
	// client knows claims and volumes, live all else.
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
	// cluster is the HPC cluster whose virtual nodes can use the volumes.
	cluster string
}

// setup joins the provisioner to what it watches.
func (p *provisioner) setup(mgr manager.Manager) error {
	claims := source.Kind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, &handler.TypedEnqueueRequestForObject[*corev1.PersistentVolumeClaim]{})
	volumes := source.Kind(mgr.GetCache(), &corev1.PersistentVolume{}, &handler.TypedEnqueueRequestForObject[*corev1.PersistentVolume]{})
	for name, part := range map[string]struct {
		watch     source.Source
		reconcile reconcile.Func
	}{
		"claims": {claims, p.provision}, "volumes": {volumes, p.reclaim},
	} {
		c, err := controller.New(name, mgr, controller.Options{Reconciler: part.reconcile, SkipNameValidation: ptr.To(true)})
		if err == nil {
			err = c.Watch(part.watch)
		}
		if err != nil {
			return fmt.Errorf("watching %s: %w", name, err)
		}
	}
	return nil
}

// provision makes the volume of a claim that waits for one of ours.
func (p *provisioner) provision(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := p.client.Get(ctx, request.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !translate.WantsVolume(claim) {
		return reconcile.Result{}, nil
	}
	class := &storagev1.StorageClass{}
	if err := p.live.Get(ctx, types.NamespacedName{Name: ptr.Deref(claim.Spec.StorageClassName, "")}, class); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil // the volume controller says so
		}
		return reconcile.Result{}, fmt.Errorf("reading the class of claim %s: %w", request, err)
	}
	ours, err := p.chosen(ctx, translate.ChosenNode(claim))
	if err != nil || !ours || !translate.ClassAllows(class, p.cluster) {
		return reconcile.Result{}, err // another cluster's provisioner may see to it
	}
	volume, err := translate.ProvisionedVolume(claim, class, p.cluster)
	if err != nil {
		p.recorder.Event(claim, corev1.EventTypeWarning, reasonProvisioningFailed, err.Error())
		return reconcile.Result{}, nil // until the claim is another
	}
	switch err := p.client.Create(ctx, volume); {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{}, nil // the cache does not know it yet
	case err != nil:
		p.recorder.Eventf(claim, corev1.EventTypeWarning, reasonProvisioningFailed, "The volume %s cannot be made: %v", volume.Name, err)
		return reconcile.Result{}, fmt.Errorf("making volume %s: %w", volume.Name, err)
	}
	logr.FromContextOrDiscard(ctx).Info("made a volume", "volume", volume.Name, "claim", request.String())
	p.recorder.Eventf(claim, corev1.EventTypeNormal, reasonProvisioned, "Made the volume %s on the HPC cluster %s", volume.Name, p.cluster)
	return reconcile.Result{}, nil
}

// chosen tells whether the node that the scheduler has chosen is one of the cluster's; no
// choice is as good.
func (p *provisioner) chosen(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return true, nil
	}
	node := &corev1.Node{}
	if err := p.live.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return node.Labels[wellknown.Cluster] == p.cluster, nil
}

// reclaim takes away a volume whose claim is gone. The directory stays: it is the HPC
// user's, and a claim of the same name finds it again.
func (p *provisioner) reclaim(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	volume := &corev1.PersistentVolume{}
	if err := p.client.Get(ctx, request.NamespacedName, volume); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !translate.Forsaken(volume) {
		return reconcile.Result{}, nil
	}
	logr.FromContextOrDiscard(ctx).Info("removing a volume whose claim is gone; its directory stays", "volume", volume.Name)
	err := p.client.Delete(ctx, volume, client.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion})
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, nil // it has changed, and is looked at again
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
