// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"sync"
	"time"
)

const (
	// longWait is after how long the logger says what a Lock waits for. It says so again each
	// time the wait has doubled.
	longWait = 10 * time.Second
	// logBurst and logEvery bound the lines of one kind.
	logBurst, logEvery = 10, time.Second
)

// logObserver is the Observer of WithLogger.
func logObserver(to *slog.Logger) Observer {
	var masters, leases, waits, clocks limit
	line := func(ctx context.Context, l *limit, level slog.Level, text string, attrs ...slog.Attr) {
		out, ok := l.take()
		if !ok {
			return
		}
		if out > 0 {
			attrs = append(attrs, slog.Int("left_out", out))
		}
		to.LogAttrs(ctx, level, text, attrs...)
	}
	background := context.Background()
	epoch := "" // only the keeper tells of it
	return Observer{
		Opening: func(ctx context.Context, e OpeningEvent) {
			to.LogAttrs(ctx, slog.LevelInfo, "redlock: opening waits for a quorum of masters",
				slog.Int("answered", e.Answered), slog.Int("quorum", e.Quorum), why(e.Err))
		},
		Master: func(e MasterEvent) {
			master := slog.String("master", e.Master)
			switch e.To {
			case MasterDown:
				line(background, &masters, slog.LevelWarn, "redlock: a master is down", master, why(e.Err))
			case MasterRecovers:
				attrs := []slog.Attr{master, why(e.Err)}
				if e.Left > 0 {
					attrs = append(attrs, slog.Duration("for", e.Left.Round(time.Millisecond)))
				}
				line(background, &masters, slog.LevelWarn, "redlock: a master recovers and does not vote", attrs...)
			case MasterRefuses:
				line(background, &masters, slog.LevelError, "redlock: a master will not vote until somebody acts", master, why(e.Err))
			case MasterVotes:
				switch {
				case e.Away > 0:
					line(background, &masters, slog.LevelInfo, "redlock: a master votes again", master, slog.Duration("after", e.Away.Round(time.Millisecond)))
				case e.From != MasterUnknown:
					line(background, &masters, slog.LevelInfo, "redlock: a master votes", master)
				}
			}
		},
		Ended: func(e EndEvent) {
			if e.End.Lost() {
				line(background, &leases, slog.LevelWarn, "redlock: a lease is lost", slog.String("lock", e.Lock), slog.Int64("token", e.Token),
					slog.Duration("held", e.Held.Round(time.Millisecond)), slog.String("cause", e.End.String()), why(e.Err))
			}
		},
		Unlocked: func(ctx context.Context, e UnlockEvent) {
			if errors.Is(e.Err, ErrUnconfirmed) {
				line(ctx, &leases, slog.LevelWarn, "redlock: a release is not confirmed", slog.String("lock", e.Lock), slog.Int64("token", e.Token), why(e.Err))
			}
		},
		Waits: func(ctx context.Context, e WaitEvent) {
			recovering := e.First && e.Last != nil && errors.Is(e.Last, ErrRecovering)
			if !recovering && doublings(e.Waited) == doublings(e.Before) {
				return
			}
			attrs := []slog.Attr{slog.String("lock", e.Lock), slog.Duration("waited", e.Waited.Round(time.Millisecond))}
			text := "redlock: a Lock still waits"
			if recovering {
				text = "redlock: a Lock waits for masters that recover"
				attrs = append(attrs[:1], slog.Duration("for", e.Last.RetryAfter.Round(time.Millisecond)))
			}
			if e.Last != nil {
				attrs = append(attrs, why(e.Last))
			}
			line(ctx, &waits, slog.LevelInfo, text, attrs...)
		},
		Acquired: func(ctx context.Context, e AcquireEvent) {
			if !e.Waited || e.Took < longWait {
				return
			}
			attrs := []slog.Attr{slog.String("lock", e.Lock), slog.Duration("waited", e.Took.Round(time.Millisecond))}
			text := "redlock: a long wait ended with the lock"
			if e.Err != nil {
				text, attrs = "redlock: a long wait ended without the lock", append(attrs, why(e.Err))
			}
			line(ctx, &waits, slog.LevelInfo, text, attrs...)
		},
		Clock: func(e ClockEvent) {
			if e.Master == "" {
				line(background, &clocks, slog.LevelError, "redlock: the clock of this host jumped; all its leases are lost")
				return
			}
			line(background, &clocks, slog.LevelWarn, "redlock: a clock seems to have jumped", slog.String("master", e.Master))
		},
		Epoch: func(e EpochEvent) {
			if epoch != "" {
				to.LogAttrs(background, slog.LevelInfo, "redlock: the masters vote in another epoch", slog.String("from", epoch), slog.String("to", e.Epoch))
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
