// SPDX-License-Identifier: Apache-2.0

// Package phases lets masters fail and return under load, phase by phase, and judges what that cost and what stayed. What a master that returned
// does, and what a client still owes, is seen on the masters themselves, and not told by the client.
package phases

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Plan is what is done to the masters, and for how long.
type Plan struct {
	Callers   int
	TTL, Wait time.Duration // of the locks; and how long a master that returns must not vote
	Away      time.Duration // that the killed master is
	Frozen    time.Duration // that all masters but a quorum are
	Pace
}

// Pace is how long the parts of a run last that no flag sets.
type Pace struct {
	Calm time.Duration // the phases before and after
	Owed time.Duration // after the last fault: nothing may be owed then, and...
	Look time.Duration // ...for so long before, the masters are watched for scripts
}

// UsualPace is that of a run that is no test.
var UsualPace = Pace{Calm: 3 * time.Second, Owed: 5 * time.Second, Look: time.Second}

// Through lets masters fail and return under load, and notes what is seen of it in res.
func (p *Plan) Through(ctx context.Context, b *masters.Backend, l *Load, res *results.Outage) error {
	last := len(b.Servers) - 1
	killed := b.Servers[last]
	pairs.NewSide(l.Pairers).Work(ctx, settleTime)
	if err := l.phase(ctx, Before, p.Calm, nil); err != nil {
		return err
	}
	if err := killed.Kill(); err != nil {
		return err
	}
	if err := l.phase(ctx, Killed, p.Away, nil); err != nil {
		return err
	}

	w := &comeback{server: killed, admin: b.Admins[last], names: pairs.LockNames(b.Prefix, p.Callers), done: make(chan struct{})}
	limit := p.Wait + votesLimit + time.Second
	go w.watch(ctx, limit)
	err := l.phase(ctx, Returned, limit+time.Second, w.done)
	<-w.done
	if err := errors.Join(err, w.err); err != nil {
		return err
	}
	res.Voting, res.Votes = w.voting, w.votes
	up := w.up.Sub(l.began).Seconds()
	res.Up = &up

	var frozen []*localredis.Server
	for i := range b.N - (b.N/2 + 1) {
		frozen = append(frozen, b.Servers[i])
	}
	if w.votes == nil {
		frozen[0] = killed // without its vote the others are needed
	}
	for _, s := range frozen {
		defer s.Resume()
		if err := s.Pause(); err != nil {
			return err
		}
	}
	if err := l.phase(ctx, Frozen, p.Frozen, nil); err != nil {
		return err
	}
	for _, s := range frozen {
		if err := s.Resume(); err != nil {
			return err
		}
	}
	resumed := time.Now()
	if err := l.phase(ctx, After, p.Calm, nil); err != nil {
		return err
	}
	return p.owes(ctx, b, resumed, res)
}

// owes looks, from outside, for what the client still owes when the load has stopped.
func (p *Plan) owes(ctx context.Context, b *masters.Backend, resumed time.Time, res *results.Outage) error {
	pause(ctx, min(p.TTL/2, time.Second))
	keys := 0
	for _, admin := range b.Admins {
		n, err := admin.Exists(ctx, pairs.LockNames(b.Prefix, p.Callers)...).Result()
		if err != nil {
			return err
		}
		keys += int(n)
	}
	pause(ctx, time.Until(resumed.Add(p.Owed-p.Look)))
	before, ok := b.Commands(ctx)
	pause(ctx, p.Look)
	after, okAfter := b.Commands(ctx)
	if !ok || !okAfter {
		return errors.Join(ctx.Err(), errors.New("the masters do not tell which commands they have run"))
	}
	if ctx.Err() == nil {
		res.Owed = &results.Owed{Keys: keys, Scripts: int(after - before)}
	}
	return ctx.Err()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
