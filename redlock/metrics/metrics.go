// SPDX-License-Identifier: Apache-2.0

// Package metrics exports what a redlock client counts to Prometheus.
//
// Lock names are no labels: there may be as many as there are customers.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/redlock"
)

// Source is what is collected: a *redlock.Client.
type Source interface{ Stats() redlock.Stats }

var _ Source = (*redlock.Client)(nil)

// metric is one figure of redlock.Stats.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(redlock.Stats) float64
}

type collector struct {
	source  Source
	metrics []metric
}

// NewCollector returns a collector for source, to be registered under constant
// labels (nil for none) that tell several clients of one process apart.
func NewCollector(source Source, labels prometheus.Labels) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("redlock_"+name, help, nil, labels)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return &collector{source, []metric{
		{desc("rounds_total", "Acquire rounds begun."), counter,
			func(s redlock.Stats) float64 { return float64(s.Rounds) }},
		{desc("grants_total", "Acquire rounds that gave a lease."), counter,
			func(s redlock.Stats) float64 { return float64(s.Granted) }},
		{desc("second_rounds_total", "Acquire rounds that needed a second round trip for the token."), counter,
			func(s redlock.Stats) float64 { return float64(s.SecondRounds) }},
		{desc("extends_total", "Extends decided, one a lease."), counter,
			func(s redlock.Stats) float64 { return float64(s.Extends) }},
		{desc("leases_lost_total", "Leases that ended before their Unlock."), counter,
			func(s redlock.Stats) float64 { return float64(s.Lost) }},
		{desc("leases_held", "Leases held now."), gauge,
			func(s redlock.Stats) float64 { return float64(s.Held) }},
		{desc("masters_recovering", "Masters known to be recovering now."), gauge,
			func(s redlock.Stats) float64 { return float64(s.Recovering) }},
		{desc("unacknowledged_releases", "Releases that masters have not acknowledged yet."), gauge,
			func(s redlock.Stats) float64 { return float64(s.Unacknowledged) }},
		{desc("dropped_releases_total", "Releases given up because a master had too many unacknowledged."), counter,
			func(s redlock.Stats) float64 { return float64(s.Dropped) }},
	}}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	stats := c.source.Stats()
	for _, m := range c.metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(stats))
	}
}
