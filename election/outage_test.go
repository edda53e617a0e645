// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/redlock"
)

// While a cluster moves slots, two names lead to one server for a moment, and another master is down. An
// observer says that the masters do not tell, and goes on.
func TestObserve_oneServerUnderTwoNamesForAMoment_goesOn(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		a := w.candidate()
		within(t, time.Second, "a leads", a.terms)
		o := w.client()
		saw := w.observe(o)
		one := within(t, time.Second, "a", saw)
		noErr(t, one.err)
		a.cancel()
		wantErr(t, within(t, 6*time.Second, "nobody", saw).err, election.ErrNoLeader)
		own := w.masters[1].Identity()
		w.masters[2].Crash()
		w.masters[1].Crash()
		w.masters[1].Restart()
		w.masters[1].SetIdentity(w.masters[0].Identity())
		two := within(t, long, "the outage", saw)
		wantErr(t, two.err, redlock.ErrUnreachable)
		if errors.Is(two.err, redlock.ErrConfig) {
			t.Errorf("%v is ErrConfig", two.err)
		}
		w.masters[1].Crash()
		w.masters[1].SetIdentity(own)
		w.masters[1].Restart()
		w.masters[2].Restart()
		wantErr(t, within(t, 2*long, "nobody again", saw).err, election.ErrNoLeader)
	})
}

// Leader's error is that of its own context, and of no other.
func TestLeader_contextEnds_saysSo(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		o := w.client()
		e := election.New(o.Client, "x")
		_, err := e.Leader(t.Context())
		wantErr(t, err, election.ErrNoLeader)
		away(o)
		time.Sleep(10 * time.Second)
		_, err = e.Leader(t.Context())
		wantErr(t, err, redlock.ErrUnreachable)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is a context's", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = e.Leader(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		if errors.Is(err, redlock.ErrUnreachable) {
			t.Errorf("%v is ErrUnreachable too", err)
		}
	})
}
