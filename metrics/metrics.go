// SPDX-License-Identifier: Apache-2.0

// Package metrics shows Prometheus what redlock clients do.
//
//	m := metrics.New(metrics.Config{})
//	prometheus.MustRegister(m)
//	client, err := redlock.Open(ctx, urls, redlock.WithObserver(m.Observer()))
//
// docs/observe.md lists the metrics and says what to look at. The directory dashboard has a Grafana
// dashboard and alerts.
//
// # Labels
//
// The name of a lock is no label: there may be as many names as there are customers. A lock has a
// class instead, which [Config.Class] makes of its name. By default all locks have the class
// "default".
package metrics

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/redlock/event"
)

// Config says how the metrics are made. The zero Config is fine.
type Config struct {
	// Class returns the class of the lock called name, for the label "class": "orders" for
	// "orders/4711", for instance. It is called for each event, from many goroutines. Default: nil,
	// and all locks have the class "default". If it panics, it is not called any more: a client with a
	// logger logs that, redlock_panics_total counts it, and all locks have the class "other" from then on,
	// also those that are held.
	Class func(name string) string
	// MaxClasses bounds how many classes there are. Locks of further classes have the class
	// "other". Default 0: 50.
	MaxClasses int

	_ struct{}
}

const (
	defaultClass      = "default"
	otherClass        = "other"
	defaultMaxClasses = 50
)

// Metrics is the metrics of any number of clients, summed up. It is a prometheus.Collector: register
// it once. To tell clients of one process apart, make a Metrics for each, and register each through
// prometheus.WrapRegistererWith. All methods are safe for concurrent use. A nil or zero Metrics, which New did not make, has no
// metrics and counts nothing.
type Metrics struct {
	class    func(string) string
	classOff atomic.Bool // it panicked
	most     int

	vecs     []prometheus.Collector
	acquires *prometheus.CounterVec
	wait     *prometheus.HistogramVec
	rounds   *prometheus.HistogramVec
	hold     *prometheus.HistogramVec
	left     *prometheus.HistogramVec
	waiters  *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	lost     *prometheus.CounterVec
	extends  *prometheus.CounterVec
	unlocks  *prometheus.CounterVec
	votes    *prometheus.CounterVec
	handed   prometheus.Counter
	masters  *prometheus.GaugeVec
	clocks   *prometheus.CounterVec
	epoch    prometheus.Gauge

	// These maps are copied to be changed.
	classes atomic.Pointer[map[string]*class]
	voters  atomic.Pointer[map[string]*masterVotes]

	mu     sync.Mutex // guards changes of the maps, and all below
	open   map[event.Client]bool
	seen   map[string]int // in how many clients a master has a state
	closed event.Stats    // of the clients that were closed: the counters alone
}

// Buckets of the histograms, in seconds: a lock may be had in less than a millisecond, and waits and
// holds last as long as somebody's work.
var (
	waitBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	holdBuckets  = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600}
	leftBuckets  = []float64{.01, .05, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30}
	roundBuckets = []float64{0, 1, 2, 3, 5, 8, 13, 21, 34}
)

// New returns metrics that no client has yet.
func New(cfg Config) *Metrics {
	m := &Metrics{class: cfg.Class, most: cfg.MaxClasses, open: make(map[event.Client]bool), seen: make(map[string]int)}
	if m.most <= 0 {
		m.most = defaultMaxClasses
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "redlock_" + name, Help: help}, labels)
		m.vecs = append(m.vecs, v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "redlock_" + name, Help: help}, labels)
		m.vecs = append(m.vecs, v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "redlock_" + name, Help: help, Buckets: buckets}, labels)
		m.vecs = append(m.vecs, v)
		return v
	}
	m.acquires = counter("acquires_total", "Calls for a lock that ended, by result.", "class", "result")
	m.wait = histogram("wait_seconds", "Time from a call for a lock to its end, with the lock (granted) or without it (failed).", waitBuckets, "class", "result")
	m.rounds = histogram("acquire_rounds", "Rounds over all masters that a call made before it had the lock.", roundBuckets, "class")
	m.hold = histogram("hold_seconds", "Time from the grant of a lock to its end.", holdBuckets, "class")
	m.left = histogram("validity_left_seconds", "Validity that was left when a lease was granted, just before it was extended, and when it was unlocked. Near 0 it is nearly lost.", leftBuckets, "class", "at")
	m.waiters = gauge("waiters", "Callers that wait for a lock now.", "class")
	m.held = gauge("leases_held", "Leases that are held now.", "class")
	m.lost = counter("leases_lost_total", "Leases that were lost before their Unlock, by cause.", "class", "cause")
	m.extends = counter("extends_total", "Extends that were decided, by result.", "class", "result")
	m.unlocks = counter("unlocks_total", "Unlocks of a last lease, by result.", "class", "result")
	m.votes = counter("votes_total", "Answers of each master to requests for its vote.", "master", "outcome")
	m.masters = gauge("master_state", "How many clients of this process see the master in this state now.", "master", "state")
	m.clocks = counter("clock_jumps_total", "Times that a clock seemed to have jumped: of a master, or of this host (empty master).", "master")
	m.handed = prometheus.NewCounter(prometheus.CounterOpts{Name: "redlock_votes_handed_total", Help: "Votes that a release handed to a waiter. They count as granted in redlock_votes_total too."})
	m.epoch = prometheus.NewGauge(prometheus.GaugeOpts{Name: "redlock_epoch", Help: "Number of the epoch in which the masters vote; 0 before it is known."})
	m.vecs = append(m.vecs, m.handed, m.epoch)
	m.classes.Store(&map[string]*class{})
	m.voters.Store(&map[string]*masterVotes{})
	m.clocks.WithLabelValues("") // this host
	if m.class == nil {
		m.newClass(defaultClass)
	}
	return m
}

func (m *Metrics) made() bool { return m != nil && m.most > 0 }

// label is s as Prometheus takes it.
func label(s string) string { return strings.ToValidUTF8(s, "?") }

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }
