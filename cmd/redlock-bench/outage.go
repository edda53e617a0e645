// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
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

// Words of the JSON: the phases.
const (
	phaseBefore   = "before"
	phaseKilled   = "killed"
	phaseReturned = "returned"
	phaseFrozen   = "frozen"
	phaseAfter    = "after"
)

const (
	turnTime   = 250 * time.Millisecond // load is measured in turns
	sampleTime = 20 * time.Millisecond  // of goroutines
	settleTime = 500 * time.Millisecond // of load before it is measured, and after the first vote of the returned master
)

// outage measures what failing masters cost, during and after.
type outage struct {
	setup
	callers     int
	maxTTL      time.Duration
	frozen      time.Duration
	persistence string
	strict      bool
	pace        pace
}

// pace is how long the parts of a run last that no flag sets.
type pace struct {
	calm time.Duration // the phases before and after
	owed time.Duration // after the last fault: nothing may be owed then, and...
	look time.Duration // ...for so long before, the masters are watched for scripts
}

var usualPace = pace{calm: 3 * time.Second, owed: 5 * time.Second, look: time.Second}

func (o *outage) define(fs *flag.FlagSet) {
	o.pace = usualPace
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
	case o.frozen < turnTime:
		return fmt.Errorf("--frozen %v: want %v or more", o.frozen, turnTime)
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
func (o *outage) phases(ctx context.Context, b *backend, r *report) error {
	if len(b.servers) == 0 {
		return errors.New("outage needs redis-server: embedded masters are no processes")
	}
	client, err := b.newClient(redlock.WithTTL(o.ttl), redlock.WithMaxTTL(o.maxTTL), redlock.WithNodeCount(b.n))
	if err != nil {
		return err
	}
	defer client.Close()
	r.result.Outage = &results.Outage{Wait: o.wait().Seconds(), MaxTTL: o.maxTTL.Milliseconds(), Failed: []string{}} // JSON has [], not null
	l := &load{pairers: lockPairers(client, b.prefix, o.callers), progress: r.progress, report: r}
	r.outageHead(b, o)
	err = o.through(ctx, b, l, r.result.Outage)
	r.progress.Clear()
	if err != nil {
		return err
	}
	r.result.Outage.Owed.Releases = client.Stats().Unacknowledged
	return o.verdict(r, l.cells)
}

// verdict judges what was measured, and says so.
func (o *outage) verdict(r *report, cells []*results.PhaseCell) error {
	res := r.result.Outage
	res.Failed = judge(cells, res)
	r.outageTail(res, o.pace.owed)
	if o.strict && len(res.Failed) > 0 {
		return errViolation
	}
	return nil
}

// through lets masters fail and return under load, and notes what is seen of it in res.
func (o *outage) through(ctx context.Context, b *backend, l *load, res *results.Outage) error {
	last := len(b.servers) - 1
	killed := b.servers[last]
	newSide(l.pairers).work(ctx, settleTime)
	if err := l.phase(ctx, phaseBefore, o.pace.calm, nil); err != nil {
		return err
	}
	if err := killed.Kill(); err != nil {
		return err
	}
	if err := l.phase(ctx, phaseKilled, o.duration, nil); err != nil {
		return err
	}

	w := &comeback{server: killed, admin: b.admins[last], names: lockNames(b.prefix, o.callers), done: make(chan struct{})}
	limit := o.wait() + votesLimit + time.Second
	go w.watch(ctx, limit)
	err := l.phase(ctx, phaseReturned, limit+time.Second, w.done)
	<-w.done
	if err := errors.Join(err, w.err); err != nil {
		return err
	}
	res.Voting, res.Votes = w.voting, w.votes
	up := w.up.Sub(l.began).Seconds()
	res.Up = &up

	var frozen []*localredis.Server
	for i := range b.n - (b.n/2 + 1) {
		frozen = append(frozen, b.servers[i])
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
	if err := l.phase(ctx, phaseFrozen, o.frozen, nil); err != nil {
		return err
	}
	for _, s := range frozen {
		if err := s.Resume(); err != nil {
			return err
		}
	}
	resumed := time.Now()
	if err := l.phase(ctx, phaseAfter, o.pace.calm, nil); err != nil {
		return err
	}
	return o.owed(ctx, b, resumed, res)
}

// owed looks, from outside, for what the client still owes when the load has stopped.
func (o *outage) owed(ctx context.Context, b *backend, resumed time.Time, res *results.Outage) error {
	pause(ctx, min(o.ttl/2, time.Second))
	keys := 0
	for _, admin := range b.admins {
		n, err := admin.Exists(ctx, lockNames(b.prefix, o.callers)...).Result()
		if err != nil {
			return err
		}
		keys += int(n)
	}
	pause(ctx, time.Until(resumed.Add(o.pace.owed-o.pace.look)))
	before, ok := b.commands(ctx)
	pause(ctx, o.pace.look)
	after, okAfter := b.commands(ctx)
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

// load is callers that work through the phases.
type load struct {
	pairers  []pairer
	cells    []*results.PhaseCell
	began    time.Time // the first phase
	progress *termline.Line
	report   *report
}

// phase lets all callers work for d, or until done is closed, and reports what was measured. Its error is that of ctx, or says that not one
// lock could be taken while all masters answered.
func (l *load) phase(ctx context.Context, name string, d time.Duration, done <-chan struct{}) error {
	s := newSide(l.pairers)
	g := sampleGoroutines()
	began := time.Now()
	if len(l.cells) == 0 {
		l.began = began
	}
	for time.Since(began) < d && ctx.Err() == nil && !closed(done) {
		l.progress.Show("outage, %s: %v", name, time.Since(began).Round(turnTime))
		s.work(ctx, min(turnTime, max(d-time.Since(began), time.Millisecond)))
	}
	cell := newPhaseCell(name, s)
	cell.At = began.Sub(l.began).Seconds()
	cell.Goroutines = g.stop()
	var err error
	if ctx.Err() != nil || cell.Pairs == 0 && len(l.cells) == 0 {
		err = s.failure(ctx)
	}
	s = nil // with its histograms, which are larger than all else
	cell.Heap = liveHeap()
	l.cells = append(l.cells, cell)
	l.progress.Clear()
	l.report.outageRow(cell)
	return err
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch: // a nil one blocks
		return true
	default:
		return false
	}
}

// liveHeap is what a garbage collection leaves.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // the first only marks what sync.Pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// goroutineSampler counts goroutines while others work.
type goroutineSampler struct {
	quit, ended chan struct{}
	seen        []int
}

func sampleGoroutines() *goroutineSampler {
	g := &goroutineSampler{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		tick := time.NewTicker(sampleTime)
		defer tick.Stop()
		for {
			select {
			case <-g.quit:
				return
			case <-tick.C:
				g.seen = append(g.seen, runtime.NumGoroutine())
			}
		}
	}()
	return g
}

// stop returns the median of the later half of what was seen: a leak is largest there.
func (g *goroutineSampler) stop() int {
	close(g.quit)
	<-g.ended
	late := g.seen[len(g.seen)/2:]
	if len(late) == 0 {
		return 0
	}
	slices.Sort(late)
	return late[len(late)/2]
}
