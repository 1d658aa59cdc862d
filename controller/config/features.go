package config

import (
	"fmt"
	"strings"

	"k8s.io/component-base/featuregate"
)

// TrainJobStatus is the feature gate of status.trainerStatus and of the server
// that trainings report to.
const TrainJobStatus = "TrainJobStatus"

// effectiveFeatures says of every feature whether it is on.
func effectiveFeatures(file map[string]bool, flag string) (map[string]bool, error) {
	gate := featuregate.NewFeatureGate()
	err := gate.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		TrainJobStatus: {Default: false, PreRelease: featuregate.Alpha},
	})
	if err != nil {
		return nil, fmt.Errorf("registering the feature gates: %w", err)
	}
	if err := gate.SetFromMap(file); err != nil {
		return nil, fmt.Errorf("featureGates of the configuration: %w", err)
	}
	if err := gate.Set(flag); err != nil {
		return nil, fmt.Errorf("--feature-gates: %w", err)
	}
	effective := map[string]bool{}
	for feature := range gate.GetAll() {
		if !strings.HasPrefix(string(feature), "All") { // AllAlpha and AllBeta stand for others
			effective[string(feature)] = gate.Enabled(feature)
		}
	}
	return effective, nil
}
