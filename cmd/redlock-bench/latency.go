// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/floor"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

const latencyHelp = `Each caller takes and gives back a lock of its own, again and again. What one
round of that costs is printed beside the floor: the same masters, the same
callers, a script that only sets or deletes a key, one pipelined connection to
each master, no lock logic. Lock and floor take turns of 50 ms in one run, so
a noisy machine is as unfair to one as to the other.

  pairs/s   acquire and release, all callers together
  p50...    time of a pair
  cpu       CPU time of this process for a pair
  masters   CPU time of all masters together for a pair
  ratio     lock divided by floor: above 1 is good for pairs/s, below 1 for the
            rest. Below it stands that of pairs/s over the turns, the median and
            the middle half: a wide range is a machine too noisy to believe.

With --hurt one of the masters is stopped or killed first, to compare with a run
in which all are well. The floor then runs on those that are left, and waits for
a quorum of all as the lock does. So it does if some of --nodes do not answer.
`

// sliceTime is how long the lock and the floor work in turn.
const sliceTime = 50 * time.Millisecond

// hurtFor is how long the lock runs on with a master hurt before it is measured: what finding out costs is not what living with it does.
const hurtFor = 200 * time.Millisecond

// latency measures acquire and release without contention.
type latency struct {
	setup
	callers counts
	hurt    string
}

func (l *latency) define(fs *flag.FlagSet) {
	l.setup.define(fs, 3*time.Second)
	l.callers = counts{1, 16, 64}
	fs.Var(&l.callers, "callers", "`N,N,...` callers, a cell for each")
	fs.StringVar(&l.hurt, "hurt", "", "`HOW` one of our own masters is hurt first: stop or kill")
}

func (l *latency) check() error {
	switch {
	case l.hurt == "":
	case l.hurt != masters.HurtStop && l.hurt != masters.HurtKill:
		return fmt.Errorf("--hurt %q: want %s or %s", l.hurt, masters.HurtStop, masters.HurtKill)
	case len(l.nodes) > 0:
		return errors.New("--hurt is for masters of our own: yours are not ours to stop")
	case l.masters < 3:
		return fmt.Errorf("--hurt with --masters %d: want 3 or more, for the others must be a quorum", l.masters)
	}
	return l.setup.check()
}

func (l *latency) run(ctx context.Context, o output) error {
	return l.setup.measure(ctx, o, "latency", l.cells)
}

// cells measures one cell after the other until ctx ends.
func (l *latency) cells(ctx context.Context, b *masters.Backend, r *report) error {
	client, err := b.NewClient(l.options(b.N)...)
	if err != nil {
		return err
	}
	defer client.Close()
	if l.hurt != "" {
		if err := b.Hurt(l.hurt); err != nil {
			return err
		}
		r.result.Hurt = l.hurt
		pairs.NewSide(pairs.LockPairers(client, b.Prefix, slices.Max(l.callers))).Slice(ctx, b, hurtFor)
	}
	var f *floor.Floor
	if len(b.Options) > 0 {
		if f, err = floor.Open(b.Options, b.N); err != nil {
			return err
		}
		defer f.Close()
	}
	r.latencyHead(b, l)
	for _, n := range l.callers {
		cell, err := l.cell(ctx, b, client, f, n, r.progress)
		if cell != nil {
			r.latencyRow(cell)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cell measures n callers. When ctx ends it returns what it has, and ctx's error.
func (l *latency) cell(ctx context.Context, b *masters.Backend, client *redlock.Client, f *floor.Floor, n int, p *termline.Line) (*results.LatencyCell, error) {
	defer p.Clear()
	pairers := [][]pairs.Pairer{pairs.LockPairers(client, b.Prefix, n)}
	if f != nil {
		pairers = append(pairers, pairs.FloorPairers(f, b.Prefix, n, l.ttl))
	}
	turns := max(1, l.duration/sliceTime)
	slice := l.duration / turns
	var sides []*pairs.Side
	for _, who := range pairers {
		pairs.NewSide(who).Slice(ctx, b, slice) // warms up
		sides = append(sides, pairs.NewSide(who))
	}
	for i := range turns {
		p.Show("latency, %s: %v of %v", text.Plural(n, "caller"), (i * slice).Round(sliceTime), l.duration)
		for _, s := range sides {
			s.Slice(ctx, b, slice)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if sides[0].Pairs() == 0 {
		return nil, sides[0].Failure(ctx)
	}
	return pairs.NewLatencyCell(sides), ctx.Err()
}
