package main

import (
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// auditLog has a line for each answered request of the users that --audit-users names: who asked for what, and what
// came of it. Nothing of an object is in it.
func (l layout) auditLog() string { return l.log("audit") }

// auditFlags has the API server write the audit log.
func auditFlags(l layout, users []string) ([]string, error) {
	if len(users) == 0 {
		return nil, nil
	}
	old, err := filepath.Glob(filepath.Join(l.logsDir(), "audit*.log"))
	if err != nil {
		return nil, fmt.Errorf("find the audit log of an earlier run: %w", err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the audit log of an earlier run: %w", err)
		}
	}
	policy, err := yaml.Marshal(auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules: []auditv1.PolicyRule{
			{Level: auditv1.LevelMetadata, Users: users},
			{Level: auditv1.LevelNone},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	file := filepath.Join(l.confDir(), "audit-policy.yaml")
	if err := writeFile(file, policy, 0o600); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + file, "--audit-log-path=" + l.auditLog()}, nil
}
