// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// class is the metrics of one class of locks. They are looked up once.
type class struct {
	granted          prometheus.Counter
	wait, waitFailed prometheus.Observer
	rounds, hold     prometheus.Observer
	atGrant          prometheus.Observer
	atExtend         prometheus.Observer
	atUnlock         prometheus.Observer
	waiters, held    prometheus.Gauge
	extended         prometheus.Counter
	released         prometheus.Counter
	name             string
}

// classOf returns the metrics of the class of the lock called name.
func (m *Metrics) classOf(name string) *class {
	of := m.nameOf(name)
	if c := (*m.classes.Load())[of]; c != nil {
		return c
	}
	return m.newClass(of)
}

// nameOf is the name of the class of the lock called name.
func (m *Metrics) nameOf(name string) (of string) {
	switch {
	case m.class == nil:
		return defaultClass
	case m.classOff.Load():
		return otherClass
	}
	of = otherClass
	defer func() {
		if p := recover(); p != nil && !m.classOff.Swap(true) {
			m.logPanic(p)
		}
	}()
	return m.class(name)
}

// mergeGauges moves what the gauges of all classes count to the class "other", once Class is switched off: the end of a wait or of
// a lease that began before is taken from "other". An event may have looked its class up just before that. So this is done whenever
// Prometheus asks, and not once.
func (m *Metrics) mergeGauges() {
	if !m.classOff.Load() {
		return
	}
	other := m.newClass(otherClass)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range *m.classes.Load() {
		move(c.waiters, other.waiters)
		move(c.held, other.held)
	}
}

// move takes from one gauge what it counts, and adds that to another. What is counted meanwhile stays.
func move(from, to prometheus.Gauge) {
	var now dto.Metric
	if err := from.Write(&now); err != nil {
		return // a gauge of a GaugeVec gives none
	}
	from.Sub(now.GetGauge().GetValue())
	to.Add(now.GetGauge().GetValue())
}

// logPanic has one of the clients that have a logger log that Class panicked with p.
func (m *Metrics) logPanic(p any) {
	m.mu.Lock()
	clients := slices.Collect(maps.Keys(m.open))
	m.mu.Unlock()
	for _, c := range clients {
		if redlock.Engine(engine.Key{}).LogPanic(c, "metrics.Config.Class", p) {
			return
		}
	}
}

func (m *Metrics) newClass(of string) *class {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.classes.Load()
	if c := known[of]; c != nil {
		return c
	}
	if len(known) >= m.most && of != otherClass {
		of = otherClass // which may be one more than the most
		if c := known[of]; c != nil {
			return c
		}
	}
	label := label(of)
	c := &class{
		name:    label,
		granted: m.acquires.WithLabelValues(label, "granted"),
		wait:    m.wait.WithLabelValues(label, "granted"), waitFailed: m.wait.WithLabelValues(label, "failed"),
		rounds: m.rounds.WithLabelValues(label), hold: m.hold.WithLabelValues(label),
		atGrant: m.left.WithLabelValues(label, "grant"), atExtend: m.left.WithLabelValues(label, "extend"), atUnlock: m.left.WithLabelValues(label, "unlock"),
		waiters: m.waiters.WithLabelValues(label), held: m.held.WithLabelValues(label),
		extended: m.extends.WithLabelValues(label, "confirmed"), released: m.unlocks.WithLabelValues(label, "released"),
	}
	// Each counter is there with 0 before it counts, because rate() and increase() do not see a series begin.
	for end := event.EndReleased; end <= event.EndClock; end++ {
		if end.Lost() {
			m.lost.WithLabelValues(label, end.String())
		}
	}
	for calls, results := range map[*prometheus.CounterVec][]string{
		m.acquires: {"held", "unreachable", "recovering", "refused", "gave_up", "closed", "error"},
		m.extends:  {"unreachable", "lost", "released", "closed"},
		m.unlocks:  {"unconfirmed", "lost", "closed", "error"},
	} {
		for _, result := range results {
			calls.WithLabelValues(label, result)
		}
	}
	more := maps.Clone(known)
	more[of] = c
	m.classes.Store(&more)
	return c
}
