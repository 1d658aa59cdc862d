package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The manifests come from the JobSet module. Embedding cannot reach into the module cache, and neither can another
// user who runs this program, so build.sh copies them here first.
//
//go:embed all:jobset-files
var jobsetFiles embed.FS

// The names that build.sh gives the files.
const (
	jobsetCRDFile     = "jobset-files/crd.yaml"
	jobsetWebhookFile = "jobset-files/webhooks.yaml"

	// jobsetNamePrefix is what JobSet's own installation puts before the names in the manifests.
	jobsetNamePrefix = "jobset-"

	// newKindDelay is how long the API server takes a kind for new. It holds a request that creates an object of a
	// new kind for as long again, so a request sent a little later is answered earlier.
	newKindDelay = 2 * time.Second
)

// webhookEndpoint is where the API server finds the webhooks. There are no Services here, so it is a URL.
type webhookEndpoint struct {
	port     int
	caBundle []byte
}

func (e webhookEndpoint) clientConfig(path string) map[string]any {
	return map[string]any{
		"url":      fmt.Sprintf("https://127.0.0.1:%d%s", e.port, path),
		"caBundle": base64.StdEncoding.EncodeToString(e.caBundle),
	}
}

// installJobSetCRD makes the JobSet API as soon as the API server takes requests, and waits until it is served.
//
// It must be there before the controller manager starts: the garbage collector looks for new kinds only every 30
// seconds, and until then would not delete what belongs to a deleted JobSet. And it is made as early as possible,
// because the API server holds back requests to create objects of a kind that is new: see newKindDelay. The time from
// which it does no longer is returned.
func installJobSetCRD(ctx context.Context, config *rest.Config) (usable time.Time, err error) {
	scheme, err := newScheme()
	if err != nil {
		return usable, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return usable, fmt.Errorf("make a client: %w", err)
	}
	objects, err := readManifests(jobsetCRDFile)
	if err != nil {
		return usable, err
	}
	for _, object := range objects {
		err = poll(ctx, "the API server to take the JobSet API", func(ctx context.Context) error {
			return createOrUpdate(ctx, c, object)
		})
		if err != nil {
			return usable, err
		}
	}
	err = poll(ctx, "the JobSet API to be served", func(ctx context.Context) error {
		return c.List(ctx, &jobsetapi.JobSetList{}, client.Limit(1))
	})
	// The API server counts from a time that it recorded in whole seconds.
	return time.Now().Truncate(time.Second).Add(newKindDelay), err
}

// installJobSetWebhooks tells the API server of the webhooks.
func installJobSetWebhooks(ctx context.Context, c client.Client, endpoint webhookEndpoint) error {
	objects, err := readManifests(jobsetWebhookFile)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := adaptWebhooks(object, endpoint); err != nil {
			return fmt.Errorf("adapt %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err := createOrUpdate(ctx, c, object); err != nil {
			return err
		}
	}
	return nil
}

// adaptWebhooks turns a webhook configuration from the module into what JobSet's installation makes of it: named
// with a prefix, and with the pod webhooks limited to the pods of JobSets.
func adaptWebhooks(configuration *unstructured.Unstructured, endpoint webhookEndpoint) error {
	configuration.SetName(jobsetNamePrefix + configuration.GetName())
	webhooks, found, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	if !found {
		return errors.New("the manifest has no webhooks")
	}
	for _, item := range webhooks {
		webhook, ok := item.(map[string]any)
		if !ok {
			return errors.New("a webhook in the manifest is not an object")
		}
		path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("webhook %v has no path", webhook["name"])
		}
		webhook["clientConfig"] = endpoint.clientConfig(path)
		if webhook["name"] == "mpod.kb.io" || webhook["name"] == "vpod.kb.io" {
			webhook["objectSelector"] = map[string]any{"matchExpressions": []any{
				map[string]any{"key": jobsetapi.JobSetNameKey, "operator": "Exists"},
			}}
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

func readManifests(name string) ([]*unstructured.Unstructured, error) {
	data, err := jobsetFiles.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("find JobSet's manifests, which only build.sh puts into this program: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the manifest %s: %w", name, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// createOrUpdate creates an object, or replaces the one that an earlier run left.
func createOrUpdate(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	err := c.Create(ctx, object.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		existing := object.DeepCopy()
		if err = c.Get(ctx, client.ObjectKeyFromObject(object), existing); err == nil {
			object.SetResourceVersion(existing.GetResourceVersion())
			err = c.Update(ctx, object)
		}
	}
	if err != nil {
		return fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
