// SPDX-License-Identifier: Apache-2.0

// Package chaos runs the lock on real masters while they are killed, frozen, emptied and cut off, and judges what came of it.
//
// Guarantee: a Result without violations means that the recorded history of this run breaks none of the promises of the nemeses that
// struck (package nemesis), as far as the checkers can see (package check), and that the run did enough to mean something. It is no
// proof for other runs. Conditions: masters, clients and harness are on one host and read one CLOCK_MONOTONIC.
//
// A run leaves nothing behind, whatever ends it: no process, container, network or file but those that were asked for. After a harness
// that panicked or was killed a process of its own cleans up, on condition that the program calls Serve before anything else.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/node/faultproxy"
	"github.com/redlock-go/redlock/redlock"
)

// Config describes a run. The zero value of a field means its default.
type Config struct {
	Driver      cluster.Driver // or Sim
	Image       string         // of the docker driver; see cluster.Config
	Servers     []string       // server programs of the process driver; see cluster.Config
	Masters     int            // default 5
	Persistence cluster.Persistence
	Clients     int                 // client processes; default 3
	Duration    time.Duration       // of the faults; default 30 s. Start, heal and checks come on top
	Seed        uint64              // of every choice; what comes of a choice depends on the machine's timing too
	Nemeses     []nemesis.Nemesis   // none: nothing goes wrong
	Other       string              // another build of this program, whose clients N21 mixes in
	AtOnce      int                 // how many strike at the same time; default 2
	Workloads   []workload.Kind     // default: all
	TTL         time.Duration       // of the locks; default 600 ms
	MaxTTL      time.Duration       // of the epoch: how long a master recovers; default 1 s
	LeastFaults int                 // the faults go on until so many, for as long again as Duration and 10 s at most
	LeastLocks  int                 // after the faults clients go on until so many were granted, for a minute at most
	Min         *check.Minimums     // default: see Minimums
	Replay      string              // the command that runs it again, for the record
	Out         io.Writer           // gets a few lines on the surroundings; nil means nowhere
	Progress    func(Progress)      // called a few times a second, from one goroutine; nil is fine
	Report      func(Outcome) error // called with the whole outcome, whatever the verdict; nil is fine
}

func (c Config) withDefaults() Config {
	c.Masters = cmp.Or(c.Masters, 5)
	c.Clients = cmp.Or(c.Clients, 3)
	c.Duration = cmp.Or(c.Duration, 30*time.Second)
	c.AtOnce = cmp.Or(c.AtOnce, 2)
	c.TTL = cmp.Or(c.TTL, 600*time.Millisecond)
	c.MaxTTL = cmp.Or(c.MaxTTL, time.Second)
	if len(c.Workloads) == 0 {
		c.Workloads = workload.Kinds()
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Min == nil {
		m := Minimums(c)
		c.Min = &m
	}
	return c
}

// Has is what the nemeses of this Config can rely on.
func (c Config) Has() nemesis.Have {
	return nemesis.Have{Persistence: c.Persistence, Other: c.Other != ""}
}

// Minimums is what a run of this Config must do to mean something: 10 locks a second, some contention, a token for each lock, and each
// nemesis once.
func Minimums(c Config) check.Minimums {
	m := check.Minimums{Acquisitions: int(c.Duration.Seconds() * 10), Contended: 10, Faults: map[string]int{}}
	m.Tokens = m.Acquisitions
	for _, n := range c.Nemeses {
		m.Faults[n.ID()] = 1
	}
	return m
}

// Serve turns this process into a client or a reaper if a run started it as one, and then does not return. A program that calls Run or
// Failover calls it before anything else: both start the program's own executable again.
func Serve() {
	workload.Serve()
	cluster.Serve()
}

// Outcome is a run and its verdict.
type Outcome struct {
	Result  *Result
	History *history.History
	Checks  []check.Result
}

// nodeTimeout is the clients': redlock's default.
const nodeTimeout = redlock.DefaultNodeTimeout

// Run does a run. The error is not nil when there is nothing to judge: the masters could not be started, or ctx ended early. Violations are
// no error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.withDefaults()
	r := &run{cfg: cfg, began: time.Now()}
	var h *history.History
	var e check.Expect
	var err error
	if cfg.Driver == Sim {
		h, e, err = simulate(ctx, cfg)
	} else {
		h, e, err = r.real(ctx)
	}
	if err != nil {
		return nil, err
	}
	checks := check.All(h, e)
	res := newResult(h, checks, r)
	if cfg.Report != nil {
		if err := cfg.Report(Outcome{Result: res, History: h, Checks: checks}); err != nil {
			return res, fmt.Errorf("chaos: report: %w", err)
		}
	}
	return res, nil
}

// run is a run under way.
type run struct {
	cfg     Config
	began   time.Time
	dir     string // of histories
	cluster *cluster.Cluster
	keeper  *cluster.Cluster // a master that nothing happens to, for the registers
	clients []*seat
	proxies []*faultproxy.Proxy
	world   *nemesis.World
	header  history.Header
	file    *os.File
	history *history.Writer // the harness's own
	locks   *redlock.Client // the harness's own, which nothing stands in the way of
	faults  faultLog
	due     queue
	lasted  time.Duration // of the faults
}

// real runs against real masters, and leaves nothing of them.
func (r *run) real(ctx context.Context) (*history.History, check.Expect, error) {
	if err := enoughMemory(r.cfg.Masters, r.cfg.Clients); err != nil {
		return nil, check.Expect{}, err
	}
	reaper, err := cluster.Watch()
	if err != nil {
		return nil, check.Expect{}, err
	}
	defer reaper.Close()
	defer r.close() // also when something panics
	h, err := r.record(ctx)
	if err := errors.Join(err, r.close()); err != nil {
		return nil, check.Expect{}, err
	}
	p := h.Header.Promises
	return h, check.Expect{X: p.Exclusion, T: p.Tokens, Heal: r.healBound(), Timeout: time.Minute, Min: *r.cfg.Min}, nil
}

// record runs everything and returns what was recorded.
func (r *run) record(ctx context.Context) (*history.History, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.strike(ctx); err != nil {
		return nil, err
	}
	if err := r.heal(ctx); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	if err := r.file.Close(); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	return history.ReadFiles(paths...)
}

// open starts masters, proxies and clients.
func (r *run) open(ctx context.Context) error {
	var err error
	if r.dir, err = cluster.TempDir(); err != nil {
		return err
	}
	cc := cluster.Config{Driver: r.cfg.Driver, Image: r.cfg.Image, Servers: r.cfg.Servers, Masters: r.cfg.Masters, Persistence: r.cfg.Persistence, Out: r.cfg.Out}
	for _, n := range r.cfg.Nemeses {
		cc.Clocks = cc.Clocks || n.Needs.Clocks
	}
	if r.cluster, err = cluster.Open(ctx, cc); err != nil {
		return err
	}
	// The register's Redis is what an application would write to: a process beside the masters, whatever these run in.
	if r.keeper, err = cluster.Open(ctx, cluster.Config{Driver: r.cluster.Driver(), Image: r.cfg.Image, Servers: r.cfg.Servers, Masters: 1}); err != nil {
		return err
	}
	r.world = &nemesis.World{
		TTL: r.cfg.TTL, NodeTimeout: nodeTimeout, Has: r.cfg.Has(), Clocks: cc.Clocks,
		Locks: workload.Locks(r.cfg.Workloads), Misconfigured: r.misconfigured,
	}
	for i, m := range r.cluster.Masters() {
		r.world.Nodes = append(r.world.Nodes, nemesis.NewNode(fmt.Sprintf("m%d", i+1), m))
	}
	if err := r.openHistory(ctx); err != nil {
		return err
	}
	own, err := r.links()
	if err != nil {
		return err
	}
	r.world.Spare = append(r.world.Spare, own)
	opts := []redlock.Option{redlock.WithTTL(r.cfg.TTL), redlock.WithMaxTTL(r.cfg.MaxTTL), redlock.WithFixedMasters()}
	if err := redlock.Init(ctx, redlock.List{URLs: urls(own), Options: opts}, nil, redlock.NothingWasEverLocked); err != nil {
		return err
	}
	if r.locks, err = redlock.Open(urls(own), opts...); err != nil {
		return err
	}
	return r.openClients(ctx)
}

func (r *run) openHistory(ctx context.Context) error {
	masters, err := r.cluster.Versions(ctx)
	if err != nil {
		return err
	}
	r.header = history.Header{
		Started: r.began, Seed: r.cfg.Seed, Driver: string(r.cluster.Driver()), Masters: r.cfg.Masters, TTL: r.cfg.TTL,
		Replay: r.cfg.Replay, Promises: nemesis.Promised(r.cfg.Nemeses), Versions: versions(masters),
	}
	if r.file, err = os.Create(filepath.Join(r.dir, "harness.jsonl")); err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	r.history, err = history.NewWriter(r.file, r.header)
	return err
}

// links starts a proxy to each node, for one client.
func (r *run) links() ([]*faultproxy.Proxy, error) {
	var ps []*faultproxy.Proxy
	for _, n := range r.world.Nodes {
		p, err := faultproxy.Start(n.Master().Addr())
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
		r.proxies = append(r.proxies, p)
	}
	return ps, nil
}

// urls names the masters alike whatever proxy leads to them: they are one epoch.
func urls(ps []*faultproxy.Proxy) []string {
	us := make([]string, len(ps))
	for i, p := range ps {
		us[i] = "redis://" + p.Addr() + "?name=" + url.QueryEscape(fmt.Sprintf("m%d", i+1))
	}
	return us
}

func (r *run) openClients(ctx context.Context) error {
	for i := range r.cfg.Clients {
		links, err := r.links()
		if err != nil {
			return err
		}
		s := &seat{name: fmt.Sprintf("c%d", i+1), dir: r.dir, other: r.cfg.Other, spec: workload.Spec{
			Seed: r.cfg.Seed, Nodes: urls(links), Register: r.keeper.Masters()[0].Addr(), Kinds: r.cfg.Workloads,
			TTL: r.cfg.TTL, MaxTTL: r.cfg.MaxTTL, Think: think, Header: r.header,
		}}
		if err := s.start(ctx); err != nil {
			return err
		}
		r.clients = append(r.clients, s)
		r.world.Links = append(r.world.Links, links)
		r.world.Clients = append(r.world.Clients, s)
	}
	return nil
}

// think is a worker's pause between two locks: some 30 workers then keep two cores half busy, and the faults decide who waits, not the
// scheduler.
const think = 5 * time.Millisecond

// strike lets the nemeses loose until the duration is over, and then those that have not struck yet, and lets the clients go on until they
// have done enough.
func (r *run) strike(ctx context.Context) error {
	begun := time.Now()
	live, stop := context.WithCancel(ctx)
	defer stop()
	during, cancel := context.WithTimeout(live, r.cfg.Duration)
	defer cancel()
	longest, cancel := context.WithTimeout(live, 2*r.cfg.Duration+10*time.Second) // a busy machine takes its time
	defer cancel()
	start := func(f func() error) <-chan error {
		done := make(chan error, 1)
		go func() {
			err := guard(f)
			if err != nil {
				stop()
			}
			done <- err
		}()
		return done
	}
	for _, i := range rand.New(rand.NewPCG(r.cfg.Seed, 0)).Perm(len(r.cfg.Nemeses)) {
		r.due.put(r.cfg.Nemeses[i])
	}
	parts := []<-chan error{start(func() error { return r.watch(live) }), start(func() error { return r.died(live) })}
	var all error
	if len(r.cfg.Nemeses) > 0 {
		var lanes []<-chan error
		for lane := range r.cfg.AtOnce {
			lanes = append(lanes, start(func() error { return r.lane(during, longest, lane) }))
		}
		for _, done := range lanes {
			all = errors.Join(all, <-done)
		}
	}
	<-during.Done()
	r.lasted = time.Since(begun)
	r.calm(live)
	stop()
	for _, done := range parts {
		all = errors.Join(all, <-done)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("chaos: interrupted: %w", ctx.Err())
	}
	return all
}

// calmMost bounds what a run that has done too little goes on for.
const calmMost = time.Minute

// calm lets the clients go on undisturbed until they have been granted as many locks as was asked for.
func (r *run) calm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, calmMost)
	defer cancel()
	for ctx.Err() == nil {
		granted := 0
		for _, s := range r.clients {
			granted += s.granted()
		}
		if granted >= r.cfg.LeastLocks {
			return
		}
		sleep(ctx, watchEvery/4)
	}
}

// guard makes a panic an error, so that the run is still cleaned up.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chaos: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// lane strikes with one nemesis after another. The first round is shared by all lanes, and nothing strikes twice before it is over. It
// lasts for as long as it takes, up to longest, and so do the faults that the run must have: a run in which too little went wrong says
// nothing.
func (r *run) lane(during, longest context.Context, lane int) error {
	choose := rand.New(rand.NewPCG(r.cfg.Seed, uint64(lane)+1))
	for longest.Err() == nil {
		n, first := r.due.take()
		ctx := during
		if during.Err() != nil {
			if _, struck := r.faults.now(); !first && struck >= r.cfg.LeastFaults {
				return nil
			}
			ctx = longest
		}
		if !first {
			n = r.cfg.Nemeses[choose.IntN(len(r.cfg.Nemeses))]
		}
		id := r.faults.begin(n.Name)
		f, ok := n.Strike(ctx, r.world, choose)
		applied := ok && f.Error == ""
		r.faults.end(id, n.Name, applied)
		if first && !applied {
			r.due.put(n)
		}
		if !ok || ctx.Err() != nil && !applied {
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		if err := r.history.Append(f); err != nil {
			return err
		}
		sleep(ctx, time.Duration(choose.Int64N(int64(r.cfg.TTL/2))))
	}
	return nil
}

// queue is the nemeses that have not struck yet. Its methods may be called by any goroutine.
type queue struct {
	mu      sync.Mutex
	nemeses []nemesis.Nemesis
}

func (q *queue) take() (n nemesis.Nemesis, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.nemeses) == 0 {
		return n, false
	}
	n, q.nemeses = q.nemeses[0], q.nemeses[1:]
	return n, true
}

func (q *queue) put(n nemesis.Nemesis) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nemeses = append(q.nemeses, n)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// died reports a client that ended before its time.
func (r *run) died(ctx context.Context) error {
	ended := make(chan error, len(r.clients))
	for _, s := range r.clients {
		go func() { ended <- s.ended(ctx) }()
	}
	for range r.clients {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// close ends everything and removes it, once. It tries all and joins the errors.
func (r *run) close() error {
	var errs []error
	for _, s := range r.clients {
		s.now().Kill()
	}
	if r.locks != nil {
		errs = append(errs, r.locks.Close())
	}
	for _, p := range r.proxies {
		errs = append(errs, p.Close())
	}
	for _, c := range []*cluster.Cluster{r.cluster, r.keeper} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if r.file != nil {
		_ = r.file.Close() // closed before if all went well
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}
