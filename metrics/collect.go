// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/redlock/event"
)

// sum adds what is read from Stats to s.
func sum(s *event.Stats, o event.Stats) {
	s.Rounds += o.Rounds
	s.SecondRounds += o.SecondRounds
	s.Dropped += o.Dropped
	s.Panics += o.Panics
}

// These are read from the clients' Stats when Prometheus asks.
var (
	roundsDesc  = prometheus.NewDesc("redlock_rounds_total", "Acquire rounds begun.", nil, nil)
	secondDesc  = prometheus.NewDesc("redlock_second_rounds_total", "Acquire rounds that needed a second round trip for the token.", nil, nil)
	unackedDesc = prometheus.NewDesc("redlock_unacknowledged_releases", "Releases that masters have not acknowledged yet.", nil, nil)
	droppedDesc = prometheus.NewDesc("redlock_dropped_releases_total", "Releases given up because a master had too many unacknowledged.", nil, nil)
	panicsDesc  = prometheus.NewDesc("redlock_panics_total", "Functions of the program (Observers, Config.Class) that panicked and are not called any more.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	if !m.made() {
		return
	}
	for _, v := range m.vecs {
		v.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{roundsDesc, secondDesc, unackedDesc, droppedDesc, panicsDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	if !m.made() {
		return
	}
	m.mergeGauges()
	for _, v := range m.vecs {
		v.Collect(ch)
	}
	m.mu.Lock()
	total, clients := m.closed, slices.Collect(maps.Keys(m.open))
	m.mu.Unlock()
	if m.classOff.Load() {
		total.Panics++
	}
	for _, c := range clients {
		s := c.Stats()
		sum(&total, s)
		total.Unacknowledged += s.Unacknowledged
	}
	for _, v := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{roundsDesc, prometheus.CounterValue, float64(total.Rounds)},
		{secondDesc, prometheus.CounterValue, float64(total.SecondRounds)},
		{unackedDesc, prometheus.GaugeValue, float64(total.Unacknowledged)},
		{droppedDesc, prometheus.CounterValue, float64(total.Dropped)},
		{panicsDesc, prometheus.CounterValue, float64(total.Panics)},
	} {
		ch <- prometheus.MustNewConstMetric(v.desc, v.kind, v.value)
	}
}
