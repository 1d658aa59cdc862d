package provider

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// inventoryLabels are what a partition's nodes are like, used or not: the types of their
// GPUs, their features, their leaf switches. What cannot be a label is left out.
func inventoryLabels(c Config, p *wlm.Partition) map[string]string {
	labels := map[string]string{}
	if p == nil {
		return labels
	}
	add := func(key, value string) {
		if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	types := gpuTypes(p.Nodes)
	for gpuType, count := range types {
		if len(types) == 1 {
			add(productLabel(c), gpuType)
		} else {
			add(wellknown.LabelGPUPrefix+gpuType, strconv.Itoa(count))
		}
	}
	for feature, count := range countNodes(p.Nodes, func(n wlm.Node) []string { return n.Features }) {
		value := wellknown.FeatureOfAll
		if count < len(p.Nodes) {
			value = wellknown.FeatureOfSome
		}
		add(wellknown.LabelFeaturePrefix+feature, value)
	}
	for leaf, count := range countNodes(p.Nodes, func(n wlm.Node) []string { return []string{n.Switch} }) {
		add(wellknown.LabelSwitchPrefix+leaf, strconv.Itoa(count))
	}
	return labels
}

// productLabel names the type of GPUs, as NVIDIA's feature discovery does.
func productLabel(c Config) string { return c.GPUResource + ".product" }

// isInventoryLabel tells the labels that come and go with the inventory.
func isInventoryLabel(c Config, key string) bool {
	return key == productLabel(c) || slices.ContainsFunc(
		[]string{wellknown.LabelGPUPrefix, wellknown.LabelFeaturePrefix, wellknown.LabelSwitchPrefix},
		func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func countNodes(nodes []wlm.Node, words func(wlm.Node) []string) map[string]int {
	counts := map[string]int{}
	for _, n := range nodes {
		for _, word := range slices.Compact(slices.Sorted(slices.Values(words(n)))) {
			counts[word]++
		}
	}
	return counts
}

// obsoleteLabels tells whether the API server's node has labels of an inventory that is
// not so any more.
func obsoleteLabels(c Config, server, want *corev1.Node) bool {
	for key := range server.Labels {
		if _, wanted := want.Labels[key]; !wanted && isInventoryLabel(c, key) {
			return true
		}
	}
	return false
}
