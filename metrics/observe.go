// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// masterVotes is a master's votes, by outcome.
type masterVotes [event.VoteNotAsked + 1]prometheus.Counter

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
func (m *Metrics) Observer() *event.Observer {
	if !m.made() {
		return &event.Observer{}
	}
	return &event.Observer{
		Opened: m.clientOpened, Closed: m.clientClosed, Waits: m.waitsFor, Acquired: m.acquired, Voted: m.voted, Extended: m.extended,
		Ended: m.ended, Unlocked: m.unlocked, Master: m.master, Clock: m.clock, Epoch: m.epochIs,
	}
}

func (m *Metrics) clientOpened(c event.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[c] = true
}

func (m *Metrics) clientClosed(c event.Client) {
	last := c.Stats()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, c)
	sum(&m.closed, last)
}

func (m *Metrics) waitsFor(_ context.Context, e event.Wait) {
	if e.First {
		m.classOf(e.Lock).waiters.Inc()
	}
}

func (m *Metrics) acquired(_ context.Context, e event.Acquire) {
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

func (m *Metrics) voted(e event.Vote) {
	of := (*m.voters.Load())[e.Master]
	if of == nil {
		of = m.newMaster(e.Master)
	}
	of[e.Answer].Inc()
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
		of[vote] = m.votes.WithLabelValues(label, event.Answer(vote).String())
	}
	m.clocks.WithLabelValues(label)
	more := maps.Clone(known)
	more[name] = of
	m.voters.Store(&more)
	return of
}

func (m *Metrics) extended(e event.Extend) {
	of := m.classOf(e.Lock)
	if e.Err != nil {
		m.extends.WithLabelValues(of.name, result(e.Err)).Inc()
		return
	}
	of.extended.Inc()
	of.atExtend.Observe(seconds(e.Left))
}

func (m *Metrics) ended(e event.End) {
	of := m.classOf(e.Lock)
	of.held.Dec()
	of.hold.Observe(e.Held.Seconds())
	switch {
	case e.Ending.Lost():
		m.lost.WithLabelValues(of.name, e.Ending.String()).Inc()
	case e.Ending == event.EndReleased:
		of.atUnlock.Observe(seconds(e.Left))
	}
}

func (m *Metrics) unlocked(_ context.Context, e event.Unlock) {
	of := m.classOf(e.Lock)
	if e.Err == nil {
		of.released.Inc()
		return
	}
	m.unlocks.WithLabelValues(of.name, result(e.Err)).Inc()
}

// master moves one client's view of a master from one state to another. A master that no client of this
// process sees any more has no state: its series would say for ever that it does not vote.
func (m *Metrics) master(e event.Master) {
	m.newMaster(e.Master)
	label := label(e.Master)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.From != event.MasterUnknown {
		m.seen[label]--
		m.masters.WithLabelValues(label, e.From.String()).Dec()
	}
	if e.To != event.MasterUnknown {
		m.seen[label]++
		for state := event.MasterVotes; state <= event.MasterDown; state++ {
			m.masters.WithLabelValues(label, state.String())
		}
		m.masters.WithLabelValues(label, e.To.String()).Inc()
	}
	if m.seen[label] == 0 {
		delete(m.seen, label)
		m.masters.DeletePartialMatch(prometheus.Labels{"master": label})
	}
}

func (m *Metrics) clock(e event.Clock) { m.clocks.WithLabelValues(label(e.Master)).Inc() }

func (m *Metrics) epochIs(e event.Epoch) { m.epoch.Set(float64(e.Number)) }
