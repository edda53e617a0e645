// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/redlock"
)

// masterVotes is a master's votes, by outcome.
type masterVotes [redlock.VoteNotAsked + 1]prometheus.Counter

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
