// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/logline"
	"github.com/redlock-go/redlock/redlock/event"
)

const (
	// longWait is after how long the logger says what a Lock waits for. It says so again each
	// time the wait has doubled.
	longWait = 10 * time.Second
	// logBurst and logEvery bound the lines of one kind.
	logBurst, logEvery = 10, time.Second
)

// logObserver is the Observer of WithLogger.
func logObserver(to *slog.Logger) event.Observer {
	var masters, leases, waits, clocks limit
	log := func(ctx context.Context, l *limit, line *logline.Line, attrs ...slog.Attr) {
		out, ok := l.take()
		if !ok {
			return
		}
		if out > 0 {
			attrs = append(attrs, slog.Int("left_out", out))
		}
		line.To(ctx, to, attrs...)
	}
	background := context.Background()
	epoch := "" // only the keeper tells of it
	return event.Observer{
		Opening: func(ctx context.Context, e event.Opening) {
			logline.Opening.To(ctx, to, slog.Int("answered", e.Answered), slog.Int("quorum", e.Quorum), why(e.Err))
		},
		Master: func(e event.Master) {
			master := slog.String("master", e.Master)
			switch e.To {
			case event.MasterDown:
				log(background, &masters, &logline.Down, master, why(e.Err))
			case event.MasterRecovers:
				attrs := []slog.Attr{master, why(e.Err)}
				if e.Left > 0 {
					attrs = append(attrs, slog.Duration("for", e.Left.Round(time.Millisecond)))
				}
				log(background, &masters, &logline.Recovers, attrs...)
			case event.MasterRefuses:
				log(background, &masters, &logline.Refuses, master, why(e.Err))
			case event.MasterVotes:
				switch {
				case e.Away > 0:
					log(background, &masters, &logline.VotesAgain, master, slog.Duration("after", e.Away.Round(time.Millisecond)))
				case e.From != event.MasterUnknown:
					log(background, &masters, &logline.Votes, master)
				}
			}
		},
		Ended: func(e event.End) {
			if e.Ending.Lost() {
				log(background, &leases, &logline.Lost, slog.String("lock", e.Lock), slog.Int64("token", e.Token),
					slog.Duration("held", e.Held.Round(time.Millisecond)), slog.String("cause", e.Ending.String()), why(e.Err))
			}
		},
		Unlocked: func(ctx context.Context, e event.Unlock) {
			if errors.Is(e.Err, ErrUnconfirmed) {
				log(ctx, &leases, &logline.Unconfirmed, slog.String("lock", e.Lock), slog.Int64("token", e.Token), why(e.Err))
			}
		},
		Waits: func(ctx context.Context, e event.Wait) {
			recovering := e.First && e.Last != nil && errors.Is(e.Last, ErrRecovering)
			if !recovering && doublings(e.Waited) == doublings(e.Before) {
				return
			}
			attrs := []slog.Attr{slog.String("lock", e.Lock), slog.Duration("waited", e.Waited.Round(time.Millisecond))}
			line := &logline.StillWaits
			if recovering {
				line = &logline.WaitsRecovery
				attrs = append(attrs[:1], slog.Duration("for", failedRound(e.Last).RetryAfter.Round(time.Millisecond)))
			}
			if e.Last != nil {
				attrs = append(attrs, why(e.Last))
			}
			log(ctx, &waits, line, attrs...)
		},
		Acquired: func(ctx context.Context, e event.Acquire) {
			if !e.Waited || e.Took < longWait {
				return
			}
			attrs := []slog.Attr{slog.String("lock", e.Lock), slog.Duration("waited", e.Took.Round(time.Millisecond))}
			line := &logline.EndedWith
			if e.Err != nil {
				line, attrs = &logline.EndedWithout, append(attrs, why(e.Err))
			}
			log(ctx, &waits, line, attrs...)
		},
		Clock: func(e event.Clock) {
			if e.Master == "" {
				log(background, &clocks, &logline.OwnClock)
				return
			}
			log(background, &clocks, &logline.ClockJumped, slog.String("master", e.Master))
		},
		Epoch: func(e event.Epoch) {
			if epoch != "" {
				logline.OtherEpoch.To(background, to, slog.String("from", epoch), slog.String("to", e.Epoch))
			}
			epoch = e.Epoch
		},
	}
}

func why(err error) slog.Attr { return slog.String("why", err.Error()) }

// doublings is how often longWait was reached or doubled within d.
func doublings(d time.Duration) int { return bits.Len64(uint64(max(d, 0) / longWait)) }

// limit bounds how many lines of one kind are logged: logBurst at once, and then one in logEvery.
// A zero limit is ready.
type limit struct {
	mu   sync.Mutex
	full time.Time // when all logBurst lines are there again
	out  int       // lines that were left out since the last
}

// take says whether a line may be logged now, and how many were left out before it.
func (l *limit) take() (out int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.full.Before(now) {
		l.full = now
	}
	if next := l.full.Add(logEvery); next.Sub(now) <= logBurst*logEvery {
		l.full = next
		out, l.out = l.out, 0
		return out, true
	}
	l.out++
	return 0, false
}
