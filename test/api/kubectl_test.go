package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestColumns(t *testing.T) {
	const namespace = "columns"
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		out, err := control.Kubectl(t.Context(), stdin, args...)
		require.NoError(t, err)
		return out
	}
	kubectl("", "create", "namespace", namespace)
	kubectl(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: done, namespace: columns}
spec: {runtimeRef: {name: r}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: fresh, namespace: columns}
spec: {runtimeRef: {name: r}}
`, "apply", "-f", "-")
	kubectl("", "patch", "trainjob", "done", "-n", namespace, "--subresource=status", "--type=merge", "-p",
		`{"status": {"conditions": [
		  {"type": "Suspended", "status": "False", "reason": "Resumed", "message": "m", "lastTransitionTime": "2026-05-01T15:20:00Z"},
		  {"type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": "m", "lastTransitionTime": "2026-05-01T15:20:00Z"}]}}`)

	for _, resource := range []string{
		"trainjobs", "trainjob", "tj", "trainjobs.trainer.kubeflow.org",
		"trainjobs.v1alpha1.trainer.kubeflow.org", "trainjobs.v2alpha1.trainer.kubeflow.org",
	} {
		t.Run(resource, func(t *testing.T) {
			out := kubectl("", "get", resource, "-n", namespace)
			var rows [][]string
			for line := range strings.Lines(out) {
				rows = append(rows, strings.Fields(line))
			}
			require.Len(t, rows, 3, out)
			assert.Equal(t, []string{"NAME", "STATE", "AGE"}, rows[0], out)
			assert.Equal(t, []string{"done", "Complete"}, rows[1][:2], "the last condition's type: %s", out)
			assert.Equal(t, "fresh", rows[2][0], out)
			assert.Len(t, rows[2], 2, "a job without conditions has no state: %s", out)
		})
	}
}
