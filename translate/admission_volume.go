package translate

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	useHostPath = "Use a hostPath in a directory of the shared filesystem that the site allows"
	follows     = "follows changes within about a minute"
)

func volumeRules() []rule {
	volume := func(field string) string { return "spec.volumes[*]." + field }
	projection := func(field string) string { return "spec.volumes[*].projected.sources[*]." + field }
	rules := []rule{
		{field: volume("name"), verdict: supported},
		{field: volume("configMap"), verdict: supported, note: "in memory; " + follows},
		{field: volume("secret"), verdict: supported, note: "in memory, encrypted on its way to the HPC node; " + follows},
		{field: volume("downwardAPI"), verdict: supported, note: "in memory; follows changes of labels and annotations at once"},
		{field: volume("projected.defaultMode"), verdict: supported},
		{field: projection("configMap"), verdict: supported},
		{field: projection("secret"), verdict: supported},
		{field: projection("downwardAPI"), verdict: supported},
		{field: projection("serviceAccountToken"), verdict: supported, note: "renewed at 80 % of its lifetime, or after a day"},
		{
			field: projection("clusterTrustBundle"), verdict: refused, reason: unsupported("ClusterTrustBundle"),
			note: "trust bundles are not fetched for pods yet",
			cure: "Use a ConfigMap that holds the certificates",
			uses: onProjections(func(p corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil }),
		},
		{
			field: projection("podCertificate"), verdict: refused, reason: unsupported("PodCertificate"),
			note: "certificates are not requested for pods yet",
			cure: "Use a Secret that holds the certificate",
			uses: onProjections(func(p corev1.VolumeProjection) bool { return p.PodCertificate != nil }),
		},
		{
			field: volume("projected.defaultUser"), verdict: ignored, note: fileOwner,
			uses: onVolumes(func(v corev1.Volume) bool { return v.Projected != nil && v.Projected.DefaultUser != nil }),
		},
		{
			field: volume("configMap.defaultUser"), verdict: ignored, note: fileOwner,
			uses: onVolumes(func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.DefaultUser != nil }),
		},
		{
			field: volume("secret.defaultUser"), verdict: ignored, note: fileOwner,
			uses: onVolumes(func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.DefaultUser != nil }),
		},
		{
			field: volume("downwardAPI.defaultUser"), verdict: ignored, note: fileOwner,
			uses: onVolumes(func(v corev1.Volume) bool { return v.DownwardAPI != nil && v.DownwardAPI.DefaultUser != nil }),
		},
		{field: volume("emptyDir.medium"), when: "empty, Memory", verdict: supported},
		{
			field: volume("emptyDir.medium"), when: "HugePages*", verdict: refused, reason: unsupported("HugePages"),
			note: "the workload manager does not hand out huge pages",
			cure: "Use the medium Memory",
			uses: onVolumes(func(v corev1.Volume) bool {
				return v.EmptyDir != nil && strings.HasPrefix(string(v.EmptyDir.Medium), string(corev1.StorageMediumHugePages))
			}),
		},
		{field: volume("emptyDir.sizeLimit"), verdict: supported, note: "a pod that exceeds it is evicted, with the medium Memory as well"},
		{field: volume("emptyDir.mode"), verdict: supported},
		{field: volume("hostPath.path"), when: "in a directory that the site allows", verdict: supported, note: "a path of the HPC nodes; links must not lead out of those directories, and in some the site may let pods only read"},
		{
			field: volume("hostPath.path"), when: "any other", verdict: refused, reason: unsupported("HostPath"),
			note: "the site does not allow this path of its HPC nodes",
			cure: "Use one that it allows, or ask the site to allow this one",
			uses: forbiddenHostPaths,
		},
		{field: volume("hostPath.type"), verdict: supported, note: "the pod waits while there is nothing, or something of another type; DirectoryOrCreate and FileOrCreate make it as the HPC user"},
		{field: volume("persistentVolumeClaim"), when: "one that the site's rules map", verdict: supported, note: "a directory of the HPC side in place of the volume; the pod waits until the claim is bound"},
		claimRule(),
		refusedVolume("ephemeral", "EphemeralVolume", "nobody provisions volumes on the HPC side", "Use an emptyDir, or a claim of your own",
			func(s corev1.VolumeSource) bool { return s.Ephemeral != nil }),
		refusedVolume("csi", "CSIVolume", "HPC nodes run no CSI drivers", useHostPath,
			func(s corev1.VolumeSource) bool { return s.CSI != nil }),
		refusedVolume("nfs", "NFSVolume", "a pod cannot mount network filesystems on an HPC node", useHostPath,
			func(s corev1.VolumeSource) bool { return s.NFS != nil }),
		refusedVolume("image", "ImageVolume", "no image is pulled", useHostPath,
			func(s corev1.VolumeSource) bool { return s.Image != nil }),
		refusedVolume("gitRepo", "GitRepoVolume", "it is deprecated, and HPC nodes clone nothing for pods", "Clone in an init container into an emptyDir",
			func(s corev1.VolumeSource) bool { return s.GitRepo != nil }),
	}
	return append(rules, attachedVolumeRules()...)
}

// claimRule refuses claims that have no place on the HPC side.
func claimRule() rule {
	return rule{
		field: "spec.volumes[*].persistentVolumeClaim", when: "any other", verdict: refused, reason: unsupported("PersistentVolumeClaim"),
		note: "the site's rules map it to no directory of the HPC side",
		cure: "Ask the site for a rule under volumes.claims in the node's configuration, or mount a hostPath in a directory that the site allows",
		uses: unmappedClaims,
	}
}

const fileOwner = "the files belong to the HPC user that the pod runs as"

// attachedVolumeRules are the rules for storage that a kubelet would attach.
func attachedVolumeRules() []rule {
	type source = corev1.VolumeSource
	attached := func(field, feature string, used func(source) bool) rule {
		return refusedVolume(field, feature, "HPC nodes attach no storage for pods", useHostPath, used)
	}
	return []rule{
		attached("awsElasticBlockStore", "AWSElasticBlockStoreVolume", func(s source) bool { return s.AWSElasticBlockStore != nil }),
		attached("azureDisk", "AzureDiskVolume", func(s source) bool { return s.AzureDisk != nil }),
		attached("azureFile", "AzureFileVolume", func(s source) bool { return s.AzureFile != nil }),
		attached("cephfs", "CephFSVolume", func(s source) bool { return s.CephFS != nil }),
		attached("cinder", "CinderVolume", func(s source) bool { return s.Cinder != nil }),
		attached("fc", "FCVolume", func(s source) bool { return s.FC != nil }),
		attached("flexVolume", "FlexVolume", func(s source) bool { return s.FlexVolume != nil }),
		attached("flocker", "FlockerVolume", func(s source) bool { return s.Flocker != nil }),
		attached("gcePersistentDisk", "GCEPersistentDiskVolume", func(s source) bool { return s.GCEPersistentDisk != nil }),
		attached("glusterfs", "GlusterfsVolume", func(s source) bool { return s.Glusterfs != nil }),
		attached("iscsi", "ISCSIVolume", func(s source) bool { return s.ISCSI != nil }),
		attached("photonPersistentDisk", "PhotonPersistentDiskVolume", func(s source) bool { return s.PhotonPersistentDisk != nil }),
		attached("portworxVolume", "PortworxVolume", func(s source) bool { return s.PortworxVolume != nil }),
		attached("quobyte", "QuobyteVolume", func(s source) bool { return s.Quobyte != nil }),
		attached("rbd", "RBDVolume", func(s source) bool { return s.RBD != nil }),
		attached("scaleIO", "ScaleIOVolume", func(s source) bool { return s.ScaleIO != nil }),
		attached("storageos", "StorageOSVolume", func(s source) bool { return s.StorageOS != nil }),
		attached("vsphereVolume", "VsphereVolume", func(s source) bool { return s.VsphereVolume != nil }),
	}
}

func refusedVolume(field, feature, note, cure string, used func(corev1.VolumeSource) bool) rule {
	return rule{
		field: "spec.volumes[*]." + field, verdict: refused, reason: unsupported(feature), note: note, cure: cure,
		uses: onVolumes(func(v corev1.Volume) bool { return used(v.VolumeSource) }),
	}
}

// onProjections finds the sources of projected volumes that make a use.
func onProjections(used func(corev1.VolumeProjection) bool) finder {
	return func(field string, pod *corev1.Pod, _ Site) []use {
		var uses []use
		for i, v := range pod.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for j, p := range v.Projected.Sources {
				if used(p) {
					uses = append(uses, use{path: fmt.Sprintf("spec.volumes[%d].projected.sources[%d]%s", i, j, suffix(field))})
				}
			}
		}
		return uses
	}
}

// forbiddenHostPaths finds hostPath volumes outside the site's lists. Where a link on
// an HPC node leads is for the agent to see.
func forbiddenHostPaths(field string, pod *corev1.Pod, site Site) []use {
	dirs := slices.Concat(site.HostPaths, site.ReadOnlyHostPaths)
	var uses []use
	for i, v := range pod.Spec.Volumes {
		if v.HostPath == nil || allowedHostPath(v.HostPath.Path, dirs) {
			continue
		}
		uses = append(uses, use{
			path:   fmt.Sprintf("spec.volumes[%d]%s", i, suffix(field)),
			detail: fmt.Sprintf("%s; allowed: %s", v.HostPath.Path, cmp.Or(strings.Join(dirs, ", "), "none")),
		})
	}
	return uses
}

func allowedHostPath(p string, allowed []string) bool {
	if !path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
		return false
	}
	return slices.ContainsFunc(allowed, func(dir string) bool { return within(path.Clean(dir), path.Clean(p)) })
}

// within tells whether a path is a directory or lies below it. Both are clean.
func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
