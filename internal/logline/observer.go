// SPDX-License-Identifier: Apache-2.0

package logline

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/redlock/event"
)

// longWait is after how long the logger says what a Lock waits for. It says so again each
// time the wait has doubled.
const longWait = 10 * time.Second

// Observer returns the Observer that logs. retryAfter is the RetryAfter of a round that failed, as [event.Wait] has it.
func Observer(to *slog.Logger, retryAfter func(round error) time.Duration) event.Observer {
	var masters, leases, waits, clocks limit
	epoch := "" // only the keeper tells of it
	return event.Observer{
		Opening:  toldOf(to, nil, opening),
		Master:   told(to, &masters, master),
		Ended:    told(to, &leases, ended),
		Unlocked: toldOf(to, &leases, unlocked),
		Waits:    toldOf(to, &waits, func(e event.Wait) (*Line, []slog.Attr) { return waiting(e, retryAfter) }),
		Acquired: toldOf(to, &waits, acquired),
		Clock:    told(to, &clocks, clock),
		Epoch: told(to, nil, func(e event.Epoch) (*Line, []slog.Attr) {
			from := epoch
			epoch = e.Epoch
			return newEpoch(from, e)
		}),
	}
}

// told writes what say says of an event, within the limit. Nil limits nothing.
func told[E any](to *slog.Logger, l *limit, say func(E) (*Line, []slog.Attr)) func(E) {
	return func(e E) {
		line, attrs := say(e)
		write(context.Background(), to, l, line, attrs)
	}
}

// toldOf is told for an event of a caller.
func toldOf[E any](to *slog.Logger, l *limit, say func(E) (*Line, []slog.Attr)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		line, attrs := say(e)
		write(ctx, to, l, line, attrs)
	}
}

func write(ctx context.Context, to *slog.Logger, l *limit, line *Line, attrs []slog.Attr) {
	if line == nil {
		return
	}
	if l != nil {
		out, ok := l.take()
		if !ok {
			return
		}
		if out > 0 {
			attrs = append(attrs, slog.Int("left_out", out))
		}
	}
	line.To(ctx, to, attrs...)
}

// The functions below say which line an event is, and with which attributes. They return nil if the event is not logged.

func opening(e event.Opening) (*Line, []slog.Attr) {
	return &Opening, []slog.Attr{slog.Int("answered", e.Answered), slog.Int("quorum", e.Quorum), why(e.Err)}
}

func master(e event.Master) (*Line, []slog.Attr) {
	name := slog.String("master", e.Master)
	switch {
	case e.To == event.MasterDown:
		return &Down, []slog.Attr{name, why(e.Err)}
	case e.To == event.MasterRecovers && e.Left > 0:
		return &Recovers, []slog.Attr{name, why(e.Err), rounded("for", e.Left)}
	case e.To == event.MasterRecovers:
		return &Recovers, []slog.Attr{name, why(e.Err)}
	case e.To == event.MasterRefuses:
		return &Refuses, []slog.Attr{name, why(e.Err)}
	case e.To == event.MasterVotes && e.Away > 0:
		return &VotesAgain, []slog.Attr{name, rounded("after", e.Away)}
	case e.To == event.MasterVotes && e.From != event.MasterUnknown:
		return &Votes, []slog.Attr{name}
	}
	return nil, nil
}

func ended(e event.End) (*Line, []slog.Attr) {
	if !e.Ending.Lost() {
		return nil, nil
	}
	return &Lost, []slog.Attr{slog.String("lock", e.Lock), slog.Int64("token", e.Token), rounded("held", e.Held),
		slog.String("cause", e.Ending.String()), why(e.Err)}
}

func unlocked(e event.Unlock) (*Line, []slog.Attr) {
	if !errors.Is(e.Err, errs.ErrUnconfirmed) {
		return nil, nil
	}
	return &Unconfirmed, []slog.Attr{slog.String("lock", e.Lock), slog.Int64("token", e.Token), why(e.Err)}
}

func waiting(e event.Wait, retryAfter func(error) time.Duration) (*Line, []slog.Attr) {
	lock := slog.String("lock", e.Lock)
	switch {
	case e.Recovers:
		return &WaitsRecovery, []slog.Attr{lock, rounded("for", retryAfter(e.Last)), why(e.Last)}
	case doublings(e.Waited) == doublings(e.Before):
		return nil, nil
	case e.Last == nil:
		return &StillWaits, []slog.Attr{lock, rounded("waited", e.Waited)}
	}
	return &StillWaits, []slog.Attr{lock, rounded("waited", e.Waited), why(e.Last)}
}

func acquired(e event.Acquire) (*Line, []slog.Attr) {
	attrs := []slog.Attr{slog.String("lock", e.Lock), rounded("waited", e.Took)}
	switch {
	case !e.Waited || e.Took < longWait:
		return nil, nil
	case e.Err != nil:
		return &EndedWithout, append(attrs, why(e.Err))
	}
	return &EndedWith, attrs
}

func clock(e event.Clock) (*Line, []slog.Attr) {
	if e.Master == "" {
		return &OwnClock, nil
	}
	return &ClockJumped, []slog.Attr{slog.String("master", e.Master)}
}

func newEpoch(from string, e event.Epoch) (*Line, []slog.Attr) {
	if from == "" {
		return nil, nil
	}
	return &OtherEpoch, []slog.Attr{slog.String("from", from), slog.String("to", e.Epoch)}
}

// why is left out by handlers if err is nil.
func why(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("why", err.Error())
}

func rounded(name string, d time.Duration) slog.Attr {
	return slog.Duration(name, d.Round(time.Millisecond))
}

// doublings is how often longWait was reached or doubled within d.
func doublings(d time.Duration) int { return bits.Len64(uint64(max(d, 0) / longWait)) }
