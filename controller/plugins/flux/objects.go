package flux

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

const (
	installerName = "flux-installer"

	installVolume = "flux-install"  // Flux on its way from the init container
	spackVolume   = "spack-install" // what Flux itself needs, at the path it was built for
	memoryVolume  = "shared-memory"
	curveVolume   = "flux-curve"

	installDir  = "/mnt/flux"
	certificate = "curve.cert"
)

// configName is the name of the ConfigMap and of its volume.
func configName(trainJob string) string { return trainJob + "-flux-entrypoint" }

func secretName(trainJob string) string { return trainJob + "-flux-curve" }

// hpcLeaves are the volumes that a pod of the HPC side has not: software that is the
// node's own is not covered, and /dev/shm is there.
var hpcLeaves = [...]string{spackVolume, memoryVolume}

func volumes(trainJob string, native bool) []corev1.Volume {
	emptyDir := func(name string, medium corev1.StorageMedium) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium},
		}}
	}
	config := corev1.Volume{Name: configName(trainJob), VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: configName(trainJob)},
			DefaultMode:          ptr.To[int32](0o755),
		},
	}}
	curve := corev1.Volume{Name: curveVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secretName(trainJob), DefaultMode: ptr.To[int32](0o400)},
	}}
	all := []corev1.Volume{
		emptyDir(spackVolume, ""),
		emptyDir(installVolume, ""),
		config,
		emptyDir(memoryVolume, corev1.StorageMediumMemory),
		curve,
	}
	return slices.DeleteFunc(all, func(v corev1.Volume) bool { return native && slices.Contains(hpcLeaves[:], v.Name) })
}

// mounts are the training container's. Kubeflow mounts the shared memory
// read-only, where MPI cannot use it.
func mounts(trainJob string, native bool) []corev1.VolumeMount {
	all := []corev1.VolumeMount{
		{Name: installVolume, MountPath: installDir},
		{Name: spackVolume, MountPath: "/opt/software"},
		{Name: configName(trainJob), MountPath: configDir, ReadOnly: true},
		{Name: curveVolume, MountPath: "/curve", ReadOnly: true},
		{Name: memoryVolume, MountPath: "/dev/shm", ReadOnly: true},
	}
	return slices.DeleteFunc(all, func(m corev1.VolumeMount) bool { return native && slices.Contains(hpcLeaves[:], m.Name) })
}

const (
	envLead      = "GANGLINE_FLUX_LEAD"
	envShellPath = "FLUX_SHELL_RC_PATH"
)

// nativeEnv is what the HPC side's containers get: where the lead listens, which
// the virtual node changes to a port that is free; where flux-shell(1) finds
// pod.lua; and the instance, for those who look in.
func nativeEnv(lead string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: envLead, Value: lead + ":8050"},
		{Name: envShellPath, Value: configDir},
		{Name: "FLUX_URI", Value: "local://" + installDir + "/config/run/flux/local"},
	}
}

func installer(trainJob, image string) corev1.Container {
	return corev1.Container{
		Name:    installerName,
		Image:   image,
		Command: []string{"/bin/bash", configDir + "/" + initScript},
		VolumeMounts: []corev1.VolumeMount{
			{Name: installVolume, MountPath: installDir},
			{Name: configName(trainJob), MountPath: configDir, ReadOnly: true},
		},
	}
}

func scriptsConfigMap(trainJob *v1alpha1.TrainJob, i instance) framework.Component {
	name := configName(trainJob.Name)
	return framework.Component{
		Kind:   &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: trainJob.Namespace}},
		Policy: framework.Always,
		Object: func() (client.Object, error) {
			return &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: framework.ChildMeta(trainJob, name),
				Data:       i.files(),
			}, nil
		},
	}
}

// curveSecret has a key that is made when the Secret is, and never again: a
// broker that restarts has to come with the others' key. Kubeflow derives it from
// the TrainJob's UID, which is no secret.
func curveSecret(trainJob *v1alpha1.TrainJob) framework.Component {
	name := secretName(trainJob.Name)
	return framework.Component{
		Kind:   &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: trainJob.Namespace}},
		Policy: framework.Once,
		Object: func() (client.Object, error) {
			text, err := newCertificate(trainJob.Name)
			if err != nil {
				return nil, fmt.Errorf("making the CURVE certificate of TrainJob %s: %w", client.ObjectKeyFromObject(trainJob), err)
			}
			return &corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: framework.ChildMeta(trainJob, name),
				Data:       map[string][]byte{certificate: []byte(text)},
			}, nil
		},
	}
}
