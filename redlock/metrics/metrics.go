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
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/internal/hook"
	"github.com/redlock-go/redlock/redlock"
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

// logPanic is not for users of package redlock. See package hook.
var logPanic = hook.LogPanic.(func(*redlock.Client, string, any) bool)

const (
	defaultClass      = "default"
	otherClass        = "other"
	defaultMaxClasses = 50
)

// Metrics is the metrics of any number of clients, summed up. It is a prometheus.Collector: register
// it once. To tell clients of one process apart, make a Metrics for each, and register each through
// prometheus.WrapRegistererWith. All methods are safe for concurrent use.
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
	open   map[*redlock.Client]bool
	seen   map[string]int // in how many clients a master has a state
	closed redlock.Stats  // of the clients that were closed: the counters alone
}

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

// masterVotes is a master's votes, by outcome.
type masterVotes [redlock.VoteNotAsked + 1]prometheus.Counter

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
	m := &Metrics{class: cfg.Class, most: cfg.MaxClasses, open: make(map[*redlock.Client]bool), seen: make(map[string]int)}
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

// logPanic has one of the clients that have a logger log that Class panicked with p.
func (m *Metrics) logPanic(p any) {
	m.mu.Lock()
	clients := slices.Collect(maps.Keys(m.open))
	m.mu.Unlock()
	for _, c := range clients {
		if logPanic(c, "metrics.Config.Class", p) {
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
	for end := redlock.EndReleased; end <= redlock.EndClock; end++ {
		if end.Lost() {
			m.lost.WithLabelValues(label, end.String())
		}
	}
	for _, result := range []string{"held", "unreachable", "recovering", "refused", "gave_up", "closed", "error"} {
		m.acquires.WithLabelValues(label, result)
	}
	more := maps.Clone(known)
	more[of] = c
	m.classes.Store(&more)
	return c
}

// result is the label of an error that a call ended with.
func result(err error) string {
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return "held"
	case errors.Is(err, redlock.ErrUnreachable):
		return "unreachable"
	case errors.Is(err, redlock.ErrRecovering):
		return "recovering"
	case errors.Is(err, redlock.ErrRefused):
		return "refused"
	case errors.Is(err, redlock.ErrLost):
		return "lost"
	case errors.Is(err, redlock.ErrUnconfirmed):
		return "unconfirmed"
	case errors.Is(err, redlock.ErrReleased):
		return "released"
	case errors.Is(err, redlock.ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "gave_up"
	}
	return "error"
}

// Observer returns what the clients are to be opened with, by redlock.WithObserver.
func (m *Metrics) Observer() *redlock.Observer {
	return &redlock.Observer{
		Opened: m.clientOpened, Closed: m.clientClosed, Waits: m.waitsFor, Acquired: m.acquired, Voted: m.voted, Extended: m.extended,
		Ended: m.ended, Unlocked: m.unlocked, Master: m.master, Clock: m.clock, Epoch: m.epochIs,
	}
}

func (m *Metrics) clientOpened(c *redlock.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[c] = true
}

func (m *Metrics) clientClosed(c *redlock.Client) {
	last := c.Stats()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, c)
	sum(&m.closed, last)
}

func (m *Metrics) waitsFor(_ context.Context, e redlock.WaitEvent) {
	if e.First {
		m.classOf(e.Lock).waiters.Inc()
	}
}

func (m *Metrics) acquired(_ context.Context, e redlock.AcquireEvent) {
	of := m.classOf(e.Lock)
	if e.Waited {
		of.waiters.Dec()
	}
	if e.Err != nil {
		of.waitFailed.Observe(e.Took.Seconds())
		m.acquires.WithLabelValues(of.name, result(e.Err)).Inc()
		return
	}
	of.granted.Inc()
	of.held.Inc()
	of.wait.Observe(e.Took.Seconds())
	of.rounds.Observe(float64(e.Rounds))
	of.atGrant.Observe(seconds(e.Validity))
}

func (m *Metrics) voted(e redlock.VoteEvent) {
	of := (*m.voters.Load())[e.Master]
	if of == nil {
		of = m.newMaster(e.Master)
	}
	of[e.Vote].Inc()
	if e.Handed {
		m.handed.Inc()
	}
}

// newMaster returns the votes of a master, which has all outcomes from the beginning.
func (m *Metrics) newMaster(name string) *masterVotes {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.voters.Load()
	if of := known[name]; of != nil {
		return of
	}
	of, label := new(masterVotes), label(name)
	for vote := range of {
		of[vote] = m.votes.WithLabelValues(label, redlock.Vote(vote).String())
	}
	m.clocks.WithLabelValues(label)
	more := maps.Clone(known)
	more[name] = of
	m.voters.Store(&more)
	return of
}

func (m *Metrics) extended(e redlock.ExtendEvent) {
	of := m.classOf(e.Lock)
	if e.Err != nil {
		m.extends.WithLabelValues(of.name, result(e.Err)).Inc()
		return
	}
	of.extended.Inc()
	of.atExtend.Observe(seconds(e.Left))
}

func (m *Metrics) ended(e redlock.EndEvent) {
	of := m.classOf(e.Lock)
	of.held.Dec()
	of.hold.Observe(e.Held.Seconds())
	switch {
	case e.End.Lost():
		m.lost.WithLabelValues(of.name, e.End.String()).Inc()
	case e.End == redlock.EndReleased:
		of.atUnlock.Observe(seconds(e.Left))
	}
}

func (m *Metrics) unlocked(_ context.Context, e redlock.UnlockEvent) {
	of := m.classOf(e.Lock)
	if e.Err == nil {
		of.released.Inc()
		return
	}
	m.unlocks.WithLabelValues(of.name, result(e.Err)).Inc()
}

// master moves one client's view of a master from one state to another. A master that no client of this
// process sees any more has no state: its series would say for ever that it does not vote.
func (m *Metrics) master(e redlock.MasterEvent) {
	m.newMaster(e.Master)
	label := label(e.Master)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.From != redlock.MasterUnknown {
		m.seen[label]--
		m.masters.WithLabelValues(label, e.From.String()).Dec()
	}
	if e.To != redlock.MasterUnknown {
		m.seen[label]++
		for state := redlock.MasterVotes; state <= redlock.MasterDown; state++ {
			m.masters.WithLabelValues(label, state.String())
		}
		m.masters.WithLabelValues(label, e.To.String()).Inc()
	}
	if m.seen[label] == 0 {
		delete(m.seen, label)
		m.masters.DeletePartialMatch(prometheus.Labels{"master": label})
	}
}

func (m *Metrics) clock(e redlock.ClockEvent) { m.clocks.WithLabelValues(label(e.Master)).Inc() }

func (m *Metrics) epochIs(e redlock.EpochEvent) { m.epoch.Set(float64(e.Number)) }

// label is s as Prometheus takes it.
func label(s string) string { return strings.ToValidUTF8(s, "?") }

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// sum adds what is read from Stats to s.
func sum(s *redlock.Stats, o redlock.Stats) {
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
	for _, v := range m.vecs {
		v.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{roundsDesc, secondDesc, unackedDesc, droppedDesc, panicsDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
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
