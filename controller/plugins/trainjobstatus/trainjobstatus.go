package trainjobstatus

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/statusserver"
)

// Names that pods see, as Kubeflow Trainer's.
const (
	envURL   = "KUBEFLOW_TRAINER_SERVER_URL"
	envCA    = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
	envToken = "KUBEFLOW_TRAINER_SERVER_TOKEN"

	volume    = "kubeflow-trainer-token"
	mountPath = "/var/run/secrets/kubeflow/trainer"
	caFile    = "ca.crt" // also the ConfigMap's key
	tokenFile = "token"

	tokenSeconds int64 = 3600
)

// Options are the plugin's.
type Options struct {
	// URL is the status server's for pods, without a path:
	// https://service.namespace.svc:10443.
	URL string
	// HPCURL is what pods of TrainJobs wished onto the HPC side get instead, where
	// the cluster's Services are not reached. Empty: URL.
	HPCURL string
	// CA returns the certificate authority of the server's certificate, as PEM.
	CA func() ([]byte, error)
}

// Plugin prepares the trainer step's pods.
type Plugin struct {
	options Options
}

var (
	_ framework.MLPolicyEnforcer = (*Plugin)(nil)
	_ framework.ComponentBuilder = (*Plugin)(nil)
)

// New makes the plugin.
func New(o Options) *Plugin { return &Plugin{options: o} }

// Name is the plugin's.
func (p *Plugin) Name() string { return "TrainJobStatus" }

// EnforceMLPolicy prepares all containers of the trainer step, with or without
// an ML policy.
func (p *Plugin) EnforceMLPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	step := info.Step(v1alpha1.AncestorTrainer)
	if step == nil {
		return nil
	}
	url := p.url(info) + statusserver.Path(trainJob.Namespace, trainJob.Name)
	pod := step.Pod()
	for i := range pod.Containers {
		c := &pod.Containers[i]
		framework.UpsertEnv(&c.Env,
			corev1.EnvVar{Name: envURL, Value: url},
			corev1.EnvVar{Name: envCA, Value: mountPath + "/" + caFile},
			corev1.EnvVar{Name: envToken, Value: mountPath + "/" + tokenFile},
		)
		framework.UpsertVolumeMounts(&c.VolumeMounts,
			corev1.VolumeMount{Name: volume, MountPath: mountPath, ReadOnly: true})
	}
	framework.UpsertVolumes(&pod.Volumes, tokenVolume(trainJob))
	return nil
}

func (p *Plugin) url(info *framework.Info) string {
	if info.Cluster != "" && p.options.HPCURL != "" {
		return p.options.HPCURL
	}
	return p.options.URL
}

func tokenVolume(trainJob *v1alpha1.TrainJob) corev1.Volume {
	token := &corev1.ServiceAccountTokenProjection{
		Audience:          statusserver.Audience(trainJob.Namespace, trainJob.Name),
		ExpirationSeconds: ptr.To(tokenSeconds),
		Path:              tokenFile,
	}
	ca := &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMapName(trainJob)},
		Items:                []corev1.KeyToPath{{Key: caFile, Path: caFile}},
	}
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: token}, {ConfigMap: ca},
		}},
	}}
}

// Build makes the ConfigMap with the certificate authority.
func (p *Plugin) Build(_ context.Context, _ *framework.Info, trainJob *v1alpha1.TrainJob) ([]framework.Component, error) {
	return []framework.Component{{
		Kind: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: trainJob.Namespace, Name: configMapName(trainJob),
		}},
		Policy: framework.Always,
		Object: func() (client.Object, error) { return p.configMap(trainJob) },
	}}, nil
}

func (p *Plugin) configMap(trainJob *v1alpha1.TrainJob) (client.Object, error) {
	ca, err := p.options.CA()
	if err != nil {
		return nil, fmt.Errorf("finding the status server's certificate authority: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: framework.ChildMeta(trainJob, configMapName(trainJob)),
		Data:       map[string]string{caFile: string(ca)},
	}, nil
}

func configMapName(trainJob *v1alpha1.TrainJob) string { return trainJob.Name + "-tls-config" }
