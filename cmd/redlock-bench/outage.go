// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/phases"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

const outageHelp = `Callers take and give back locks of their own at full speed, through one
client, while masters fail:

  before    all masters answer
  killed    one master was killed, for --duration
  returned  it was started again, empty unless --persistence keeps its data. It
            recovers: it waits the maximum TTL and its drift, and votes again
  frozen    all masters but a quorum are stopped (SIGSTOP). The one that
            returned is in that quorum: each lock in this phase needs its vote
  after     all masters answer again

  locks/s     acquire and release, all callers together: the median of turns
              of 250 ms
  p50, p99    time of a pair; one that ends in an error is not counted
  cpu         CPU time of this process for a pair
  ratio       divided by that of before
  heap        what is alive after a garbage collection at the end of the phase
  goroutines  in this process, callers included: the median over the second
              half of the phase

Two reads every 5 ms on the returned master tell when its votes count: its
record lets it vote, and EXISTS finds a key of these locks. Only a vote leaves
such a key. The time that it waits is reported apart.

Then the load stops. A client that owes nothing has left no key and sends
nothing. So the keys of these locks are counted on all masters while a TTL is
not yet over, and so are the scripts that the masters run between 4 s and 5 s
after the last fault.

With --check the exit code is 1 unless all of this holds:
  heap          of each phase at most 8 MB and 1 % above before
  goroutines    of each phase at most 2 (or 1 %) more than before
  locks/s       killed and frozen at least 0.95 of before
  returned      its votes count within 2 s after its wait
  owed          nothing 5 s after the last fault
`

// outage measures what failing masters cost, during and after.
type outage struct {
	setup
	callers     int
	maxTTL      time.Duration
	frozen      time.Duration
	persistence string
	strict      bool
	pace        phases.Pace
}

func (o *outage) define(fs *flag.FlagSet) {
	o.pace = phases.UsualPace
	o.defineOwn(fs, 10*time.Second)
	fs.Lookup("ttl").DefValue, o.ttl = "2s", 2*time.Second
	fs.Lookup("duration").Usage = "`TIME` that the killed master is away"
	fs.IntVar(&o.callers, "callers", 64, "`N` callers")
	fs.DurationVar(&o.maxTTL, "max-ttl", 2*time.Second, "`TIME` of the maximum TTL")
	fs.DurationVar(&o.frozen, "frozen", 3*time.Second, "`TIME` that all masters but a quorum are frozen")
	fs.StringVar(&o.persistence, "persistence", "none", "`WHAT` masters keep: none, everysec or always")
	fs.BoolVar(&o.strict, "check", false, "exit with 1 when what must hold does not")
}

func (o *outage) check() error {
	switch localredis.Persistence(o.persistence) {
	case "none":
	case localredis.EverySec, localredis.Always:
		o.server.Persistence = localredis.Persistence(o.persistence)
	default:
		return fmt.Errorf("--persistence %q: want none, everysec or always", o.persistence)
	}
	switch {
	case o.callers < 1 || o.callers > maxCount:
		return fmt.Errorf("--callers %d: want 1 to %d", o.callers, maxCount)
	case o.masters < 3:
		return fmt.Errorf("--masters %d: want 3 or more, for without the killed one there must be a quorum", o.masters)
	case o.maxTTL < o.ttl:
		return fmt.Errorf("--max-ttl %v: want the --ttl, %v, or more", o.maxTTL, o.ttl)
	case o.maxTTL > maxTTL:
		return fmt.Errorf("--max-ttl %v: want %v or less", o.maxTTL, maxTTL)
	case o.duration <= o.ttl:
		return fmt.Errorf("--duration %v: want more than the --ttl, %v: a vote of before must be over when the master returns", o.duration, o.ttl)
	case o.frozen < phases.TurnTime:
		return fmt.Errorf("--frozen %v: want %v or more", o.frozen, phases.TurnTime)
	}
	return o.setup.check()
}

func (o *outage) run(ctx context.Context, out output) error {
	return o.setup.measure(ctx, out, "outage", o.phases)
}

// wait is how long a master that returns must not vote.
func (o *outage) wait() time.Duration {
	if o.server.Persistence == localredis.Always {
		return 0
	}
	return o.maxTTL + 2*clock.DefaultDrift().Of(o.maxTTL)
}

// phases goes through all of them. Its error is errViolation when something does not hold that must.
func (o *outage) phases(ctx context.Context, b *masters.Backend, r *report) error {
	if len(b.Servers) == 0 {
		return errors.New("outage needs redis-server: embedded masters are no processes")
	}
	client, err := b.NewClient(redlock.WithTTL(o.ttl), redlock.WithMaxTTL(o.maxTTL), redlock.WithNodeCount(b.N))
	if err != nil {
		return err
	}
	defer client.Close()
	r.result.Outage = &results.Outage{Wait: o.wait().Seconds(), MaxTTL: o.maxTTL.Milliseconds(), Failed: []string{}} // JSON has [], not null
	l := &phases.Load{Pairers: pairs.LockPairers(client, b.Prefix, o.callers), Progress: r.progress, Row: r.outageRow}
	r.outageHead(b, o)
	p := &phases.Plan{Callers: o.callers, TTL: o.ttl, Wait: o.wait(), Away: o.duration, Frozen: o.frozen, Pace: o.pace}
	err = p.Through(ctx, b, l, r.result.Outage)
	r.progress.Clear()
	if err != nil {
		return err
	}
	r.result.Outage.Owed.Releases = client.Stats().Unacknowledged
	return o.verdict(r, l.Cells)
}

// verdict judges what was measured, and says so.
func (o *outage) verdict(r *report, cells []*results.PhaseCell) error {
	res := r.result.Outage
	res.Failed = phases.Judge(cells, res)
	r.outageTail(res, o.pace.Owed)
	if o.strict && len(res.Failed) > 0 {
		return errViolation
	}
	return nil
}

func (r *report) outageHead(b *masters.Backend, o *outage) {
	r.line("outage of %s: %s, TTL %v, maximum TTL %v", b.Label(), text.Plural(o.callers, "caller"), o.ttl, o.maxTTL)
	r.line("one is killed for %v, then all but %d are frozen for %v; ratio is to before", o.duration, b.N/2+1, o.frozen)
	r.line("")
	r.line(outageLine, "phase", "locks/s", "ratio", "p50", "p99", "ratio", "cpu", "ratio", "heap", "gorou-", "errors")
	r.line(outageLine, "", "", "", "ms", "ms", "", "us", "", "MB", "tines", "")
}

const outageLine = "%-9s%8s%6s%7s%7s%7s%8s%7s%6s%7s%7s"

func (r *report) outageRow(c *results.PhaseCell) {
	if len(r.result.Cells) > 0 {
		phases.RatioTo(c, r.result.Cells[0].(*results.PhaseCell))
	}
	r.result.Cells = append(r.result.Cells, c)
	q := results.PhaseRatio{Median: 1, P99: 1, CPU: 1}
	if c.Ratio != nil {
		q = *c.Ratio
	}
	r.line(outageLine, c.Phase, text.Number(c.Median), text.Number(q.Median), text.Number(c.P50/1e3), text.Number(c.P99/1e3), text.Number(q.P99), text.Number(c.CPU), text.Number(q.CPU),
		phases.Megabytes(float64(c.Heap)), fmt.Sprint(c.Goroutines), fmt.Sprint(c.Errors))
	r.firstError(c.FirstErr)
}

// outageTail says what is not of one phase.
func (r *report) outageTail(res *results.Outage, owedAfter time.Duration) {
	r.line("")
	switch {
	case res.Voting == nil:
		text.Paragraph(r.table, "returned", fmt.Sprintf("it had to wait %.2f s, and did not vote while it was watched", res.Wait))
	case res.Votes == nil:
		text.Paragraph(r.table, "returned", fmt.Sprintf("it could vote %.2f s after it answered again, of which %.2f s were its wait; no vote of it was seen",
			*res.Voting, res.Wait))
	default:
		text.Paragraph(r.table, "returned", fmt.Sprintf("it could vote %.2f s after it answered again, of which %.2f s were its wait; its votes counted after %.2f s",
			*res.Voting, res.Wait, *res.Votes))
	}
	if left := res.Owed; left.Keys == 0 && left.Releases == 0 && left.Scripts <= phases.NotesLimit {
		text.Paragraph(r.table, "owed", fmt.Sprintf("nothing %v after the last fault: no key is left, and a client with nothing to do runs %s a second, for its clock notes",
			owedAfter, text.Plural(left.Scripts, "script")))
	} else {
		text.Paragraph(r.table, "owed", fmt.Sprintf("%s left of locks that nobody holds; %v after the last fault the client keeps %s, and the masters ran %s in a second for a client with nothing to do",
			text.Plural(res.Owed.Keys, "key"), owedAfter, text.Plural(res.Owed.Releases, "release"), text.Plural(res.Owed.Scripts, "script")))
	}
	for _, what := range res.Failed {
		text.Paragraph(r.table, "FAILED", what)
	}
}
