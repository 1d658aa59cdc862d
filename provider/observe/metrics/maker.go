package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one of gangline-node's metrics, as the documentation lists it.
type Metric struct {
	Name, Kind, Help string
	Labels           []string
}

// The kinds of metrics.
const (
	kindCounter   = "counter"
	kindGauge     = "gauge"
	kindHistogram = "histogram"
)

// maker makes and registers metrics, and remembers what it has made.
type maker struct {
	registerer prometheus.Registerer
	made       []Metric
	errs       []error
}

func (m *maker) add(c prometheus.Collector, kind, name, help string, labels []string) {
	m.made = append(m.made, Metric{Name: name, Kind: kind, Help: help, Labels: labels})
	if err := m.registerer.Register(c); err != nil {
		m.errs = append(m.errs, fmt.Errorf("registering the metric %s: %w", name, err))
	}
}

func (m *maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.add(c, kindCounter, name, help, labels)
	return c
}

func (m *maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	c := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.add(c, kindGauge, name, help, labels)
	return c
}

func (m *maker) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	c := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.add(c, kindHistogram, name, help, labels)
	return c
}

// asked is a gauge whose values are asked for when somebody scrapes: count is by the
// label's value, and nil, or a nil answer, for nothing known yet.
func (m *maker) asked(name, help, label string, values []string, count func() map[string]int) {
	m.add(&asked{desc: prometheus.NewDesc(name, help, []string{label}, nil), values: values, count: count},
		kindGauge, name, help, []string{label})
}

// askedFor is such a gauge whose label's values are not known beforehand; nobody gives it
// more of them than a person would read.
func (m *maker) askedFor(name, help, label string, count func() map[string]int) {
	m.asked(name, help, label, nil, count)
}

func (m *maker) err() error { return errors.Join(m.errs...) }

type asked struct {
	desc   *prometheus.Desc
	values []string
	count  func() map[string]int
}

func (a *asked) Describe(descs chan<- *prometheus.Desc) { descs <- a.desc }

func (a *asked) Collect(metrics chan<- prometheus.Metric) {
	if a.count == nil {
		return
	}
	counts := a.count()
	if counts == nil {
		return
	}
	values := a.values
	if values == nil {
		values = slices.Sorted(maps.Keys(counts))
	}
	for _, value := range values {
		metrics <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, float64(counts[value]), value)
	}
}

// Catalogue are all metrics, by their names.
func Catalogue() ([]Metric, error) {
	process, node := &maker{registerer: prometheus.NewRegistry()}, &maker{registerer: prometheus.NewRegistry()}
	newProcess(process, "")
	newNode(node, Sources{})
	all := slices.Concat(process.made, node.made)
	slices.SortFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(process.err(), node.err())
}
