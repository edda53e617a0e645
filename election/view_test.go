// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// Nobody leads, or a holder has announced nothing. A look that no quorum answers is no outage yet: it is looked at again for a second. The next look
// comes up to 5 s after the last one, so that second begins with the answer that is not clear.
func TestViewNext_nobodyLeadsAndALookFails_isLookedAtAgain(t *testing.T) {
	for what, nobody := range map[string]sight{
		"free":  {err: ErrNoLeader},
		"early": {err: ErrNoLeader, early: true, left: 10 * time.Second},
	} {
		now := time.Now()
		v := newView(func(time.Duration) time.Duration { return 0 })
		next := func(s sight) (show bool) {
			show, pause := v.next(s, now)
			now = now.Add(pause)
			return show
		}
		for began := now; !next(nobody); {
			if now.Sub(began) > settle+pauseMax {
				t.Fatalf("%s: not shown after %v", what, now.Sub(began))
			}
		}
		if silent := (sight{err: redlock.ErrUnreachable}); next(silent) {
			t.Errorf("%s: one look failed, and is shown: %v", what, v.shown.err)
		}
		if next(nobody) {
			t.Errorf("%s: shown again, and nothing changed", what)
		}
		began := now
		for !next(sight{err: redlock.ErrUnreachable}) {
			if now.Sub(began) > settle+pauseMax {
				t.Fatalf("%s: the outage is not shown after %v", what, now.Sub(began))
			}
		}
		if took := now.Sub(began); took <= settle || !errors.Is(v.shown.err, redlock.ErrUnreachable) {
			t.Errorf("%s: %v is shown after %v", what, v.shown.err, took)
		}
	}
}

// The look behind the end of the votes that were seen fails. That is one slow answer, until the masters have not told for a second.
func TestViewNext_leaderLeadsAndALookFails_isLookedAtAgain(t *testing.T) {
	now := time.Now()
	v := newView(func(d time.Duration) time.Duration { return d })
	next := func(s sight) (show bool) {
		show, pause := v.next(s, now)
		now = now.Add(pause)
		return show
	}
	leads, silent := sight{leader: Leader{Token: 7}, left: 3 * time.Second}, sight{err: redlock.ErrUnreachable}
	if !next(leads) {
		t.Fatal("the first leader is not shown")
	}
	for range 3 {
		if next(silent) || next(leads) {
			t.Fatalf("one look failed, and is shown: %+v", v.shown)
		}
	}
	for began := now; !next(silent); {
		if now.Sub(began) > settle+time.Millisecond {
			t.Fatalf("the outage is not shown after %v", now.Sub(began))
		}
	}
}

// What is not clear at first is shown a second later, and not when the pause that was begun before is over.
func TestViewNext_unclear_isShownInTime(t *testing.T) {
	for what, s := range map[string]sight{
		"masters do not tell":      {err: redlock.ErrUnreachable},
		"nothing is announced yet": {err: ErrNoLeader, early: true, left: 10 * time.Second},
	} {
		now := time.Now()
		v, began := newView(func(time.Duration) time.Duration { return 0 }), now
		for {
			show, pause := v.next(s, now)
			if show {
				break
			}
			now = now.Add(pause)
		}
		if took := now.Sub(began); took < settle || took > settle+time.Millisecond {
			t.Errorf("%s: shown after %v, want %v", what, took, settle)
		}
	}
}
