// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// live is the work of a client in one round.
func (m *month) live(ctx context.Context, r *resident, rng *rand.Rand) {
	for ctx.Err() == nil {
		sleepFor(ctx, time.Duration(rng.Int64N(int64(shift/4))))
		if ctx.Err() != nil {
			return
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		m.act(short, r, rng)
		cancel()
	}
}

// held notes a lease.
func (m *month) held(l *redlock.Lease) *redlock.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ledgers[l.Name()] == nil {
		m.ledgers[l.Name()] = new(ledger)
	}
	m.ledgers[l.Name()].add(l, 0, l.Holder())
	return l
}

func (m *month) act(ctx context.Context, r *resident, rng *rand.Rand) {
	keeps := time.Duration(rng.IntN(20_000)) * time.Millisecond
	work := func(ctx context.Context, l *redlock.Lease) error {
		m.held(l)
		sleepFor(ctx, keeps)
		return nil
	}
	done := func(what string, err error) {
		if err == nil {
			m.note(what)
		}
	}
	switch rng.IntN(9) {
	case 0:
		done("lock", r.Mutex(anyOf(rng, "x", "y")).Do(ctx, work))
	case 1:
		done("own name", r.Mutex(fmt.Sprintf("job-%x", rng.Uint64())).Do(ctx, work))
	case 2:
		done("permit", semaphore.New(r.Client, "s", 2).Do(ctx, func(ctx context.Context, p *semaphore.Permit) error {
			return work(ctx, redlock.LeaseFrom(ctx))
		}))
	case 3:
		done("several", multilock.New(r.Mutex("b"), r.Mutex("a")).Do(ctx, func(ctx context.Context, l *multilock.Lease) error {
			m.held(l.Members()[0])
			return work(ctx, l.Members()[1])
		}))
	case 4:
		ran, err := r.Every("j", 10*time.Minute).Do(ctx, work)
		if ran {
			done("every", err)
		}
	case 5:
		m.load(ctx, r, keeps)
	case 6:
		m.handOver(ctx, r, rng)
	case 7:
		m.lead(ctx, r, keeps)
	default:
		done("read", r.RWMutex("rw").RDo(ctx, func(ctx context.Context, _ *redlock.Lease) error {
			sleepFor(ctx, keeps)
			return nil
		}))
	}
}

func (m *month) load(ctx context.Context, r *resident, keeps time.Duration) {
	found := false
	read := func(context.Context) (int, bool, error) { return 1, found, nil }
	if _, err := flight.Do(ctx, r.Client, "f", read, func(ctx context.Context) (int, error) {
		m.held(redlock.LeaseFrom(ctx))
		sleepFor(ctx, keeps)
		found = true
		return 1, ctx.Err()
	}); err == nil {
		m.note("load")
	}
}

// handOver gives a lease to another client of the fleet.
func (m *month) handOver(ctx context.Context, r *resident, rng *rand.Rand) {
	l, err := r.Mutex("x").Lock(ctx)
	if err != nil {
		return
	}
	m.held(l)
	voucher, err := l.Transfer(ctx)
	if err != nil {
		_ = l.Unlock(ctx)
		return
	}
	adopted, err := m.fleet[rng.IntN(len(m.fleet))].Adopt(ctx, voucher)
	if err != nil {
		return
	}
	m.held(adopted)
	m.note("handed over")
	sleepFor(adopted.Context(), time.Second)
	_ = adopted.Unlock(ctx)
}

// lead has the client lead for a while, and resign.
func (m *month) lead(ctx context.Context, r *resident, keeps time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := election.New(r.Client, "e")
	go func() {
		for range election.New(r.Client, "e").Observe(ctx) {
			m.note("observe")
		}
	}()
	_ = e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
		m.held(redlock.LeaseFrom(ctx))
		m.note("lead")
		sleepFor(ctx, keeps)
		cancel()
		return nil
	})
}

// judge wants every lock to have had one holder at a time, nothing to have grown, and the metrics to be what the clients counted.
func (m *month) judge() {
	for name, l := range m.ledgers {
		l.judge(m.t)
		if m.t.Failed() {
			m.t.Logf("after %s", name)
			break
		}
	}
	n := len(m.looks)
	first, last := m.looks[n/4], m.looks[n-1]
	for _, l := range m.looks[n/2:] {
		last.goroutines, last.channels = max(last.goroutines, l.goroutines), max(last.channels, l.channels)
	}
	for _, l := range m.looks[:n/2] {
		first.goroutines, first.channels, first.heap = max(first.goroutines, l.goroutines), max(first.channels, l.channels), max(first.heap, l.heap)
	}
	// A list of five has more goroutines and channels than one of three, and both halves have both.
	if last.goroutines > first.goroutines+2 || last.channels > first.channels+2 || last.heap > first.heap*3/2+8<<20 {
		m.t.Errorf("in the first half there were at most %+v, in the second %+v", first, last)
	}
	m.t.Logf("%v: at first at most %+v, then %+v; %+v", time.Since(m.begun), first, last, m.total)
	m.judgeMetrics()
}

// judgeMetrics compares what Prometheus would be told with what the clients counted.
func (m *month) judgeMetrics() {
	reg := prometheus.NewRegistry()
	noErr(m.t, reg.Register(m.meter))
	families, err := reg.Gather()
	noErr(m.t, err)
	sums := make(map[string]float64)
	for _, f := range families {
		for _, s := range f.GetMetric() {
			name := f.GetName()
			for _, label := range s.GetLabel() {
				if label.GetName() == "result" {
					name += " " + label.GetValue()
				}
			}
			sums[name] += value(s)
		}
	}
	for name, want := range map[string]uint64{
		"redlock_acquires_total granted":  m.total.granted,
		"redlock_leases_lost_total":       m.total.lost,
		"redlock_rounds_total":            m.total.rounds,
		"redlock_leases_held":             0,
		"redlock_waiters":                 0,
		"redlock_unacknowledged_releases": 0,
	} {
		if got := sums[name]; got != float64(want) {
			m.t.Errorf("%s is %v, and the clients counted %d: %v", name, got, want, sums)
		}
	}
}

func value(s *dto.Metric) float64 {
	return s.GetCounter().GetValue() + s.GetGauge().GetValue()
}
