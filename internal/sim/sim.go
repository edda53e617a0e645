// SPDX-License-Identifier: Apache-2.0

// Package sim is a chaos run without processes: the library itself, over masters in memory (package nodetest), under a
// seeded schedule of delays, losses, crashes, amnesia, partitions and wrong clocks.
//
// Guarantee: the history that [Run] returns is true, in the sense that every instant in it was read from one clock, whatever
// the clocks of clients and masters showed. Inside a testing/synctest bubble that clock is the bubble's: minutes take
// milliseconds, and a run repeats from its seed and configuration, but for what happens at one and the same instant.
// Outside of a bubble it takes the time it simulates.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// Tended is the nemeses under which exclusion and tokens are promised: clocks' rates are within the documented drift, with any
// offset between clients.
func Tended() []string {
	return []string{"kill-minority", "kill-majority", "wipe-minority", "freeze-masters", "freeze-client", "kill-client", "partition", "reorder", "cut-replies", "slow-replies", "flush-data", "fail-over"}
}

// Wild is Tended and wrong clocks, under which only tokens are promised: masters' clocks step by up to half a minute, a minority of
// them runs at half to double speed, and clients' hosts suspend.
func Wild() []string { return append(Tended(), "step-clock", "skew-clocks", "suspend-client") }

// Config is what is run. The zero value of a field means its default.
type Config struct {
	Masters  int           // 5; 7 where they are operated
	Clients  int           // 8
	Workers  int           // of each client; 1. With more, a run repeats only nearly: two may act at one instant
	Locks    int           // the first of every four is read-write; 3
	Duration time.Duration // simulated time with faults; 20 s
	MaxTTL   time.Duration // the longest TTL of a lock, and so the wait of a master that lost its data; 1 s
	MinTTL   time.Duration // the shortest TTL of a lock; a fifth of MaxTTL
	Think    time.Duration // mean pause between two locks, and mean hold; 3 ms
	Nemeses  []string      // what goes wrong, of Wild, delete-lock and misconfigure; Tended
	Pace     time.Duration // mean pause between two faults; MaxTTL
	Lasts    time.Duration // how long a fault lasts at most; Pace
	Odds     int           // how many commands in a thousand are held back, and how many are lost with or without effect; 1
	Linger   int           // how many holders in a hundred work on for about a MaxTTL; 2 where clients freeze, else 0
	// Amnesia lets any number of masters lose their data, instead of a minority. Only exclusion is promised then: with all
	// counters gone tokens rest on clocks.
	Amnesia bool
	// Operated has operators at work: the locks move from one list of 3 or 5 of the masters to another, masters begin on an
	// operator's word, and clients are started again and again. Clocks of masters step, one at a time and far.
	Operated bool
	// Steps has the clock of one master step now and then, in a way that must break no promise: all masters vote, and no client hears
	// from the master for a while around the step.
	Steps bool
	// Messages has the masters' messages to a client come late, or not at all, for a while.
	Messages bool
	// Downgrade is how many writers in a hundred go on as readers.
	Downgrade int
	// Permits is k of a semaphore that is taken as often as its k slots and its turn are among the locks. 0: there is none. Its waiters act on
	// several locks at one instant, so a run with it repeats only nearly.
	Permits int
	// Left looks for what is left behind once the faults are over: see Left. Every client may kill its old connections then, because an
	// acquire that was held back on one that it may not kill leaves a vote for a TTL.
	Left bool
	// MinHold is the minimum hold of the locks that are not read-write. 0 is none.
	MinHold time.Duration
	// Namespace is that of all clients and operators. Empty is none.
	Namespace string
	// Calm turns every fault off: the plain speed of it.
	Calm bool
	// Stop is asked now and then; when it says yes the run ends early, and proves nothing. Nil never does.
	Stop func() bool
	// Progress is told how far the run is each time something goes wrong, and what has by then. Nil is fine.
	Progress func(elapsed time.Duration, faults int)
}

// does tells whether a nemesis is at work in the run.
func (c Config) does(nemesis string) bool { return !c.Calm && slices.Contains(c.Nemeses, nemesis) }

func (c Config) withDefaults() Config {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if c.Operated {
		set(&c.Masters, 7)
	}
	set(&c.Masters, 5)
	set(&c.Clients, 8)
	set(&c.Workers, 1)
	set(&c.Locks, 3)
	if c.Nemeses == nil {
		c.Nemeses = Tended()
	}
	if c.Duration <= 0 {
		c.Duration = 20 * time.Second
	}
	if c.MaxTTL <= 0 {
		c.MaxTTL = time.Second
	}
	if c.Pace <= 0 {
		c.Pace = c.MaxTTL
	}
	if c.Lasts <= 0 {
		c.Lasts = c.Pace
	}
	if c.MinTTL <= 0 {
		c.MinTTL = c.MaxTTL / 5
	}
	set(&c.Odds, 1)
	if c.does("freeze-client") {
		set(&c.Linger, 2)
	}
	if c.Think <= 0 {
		c.Think = 3 * time.Millisecond
	}
	return c
}

// Promises is what must hold under the faults of c.
func (c Config) Promises() history.Promises {
	wild := slices.ContainsFunc(c.Nemeses, func(n string) bool { return n != "misconfigure" && !slices.Contains(Tended(), n) })
	return history.Promises{Exclusion: !wild, Tokens: !c.Amnesia}
}

// Heal is how long after the last fault a lock may stay out of reach: until every master has recovered and every lease of the
// dead is over, with a second for the rounds.
func (c Config) Heal() time.Duration {
	c = c.withDefaults()
	return 3*c.MaxTTL + 5*time.Second
}

// HealOf is Heal, or longer where a clock was set back at last: with other masters out of reach, a vote that was there before is waited for.
func (c Config) HealOf(h *history.History) time.Duration {
	var heal, stands int64
	for _, f := range h.Faults {
		heal, stands = max(heal, f.End), max(stands, f.Start+int64(f.Ahead))
	}
	return c.Heal() + time.Duration(max(stands-heal, 0))
}

// world is one run.
type world struct {
	cfg     Config
	seed    uint64
	start   time.Time
	masters []*nodetest.Master
	members []*member
	locks   []*lock
	// forgetful are the only masters that lose data, so that a quorum of counters is intact at any time: the condition of the
	// tokens.
	forgetful []int
	op        *operator // where masters are operated
	stepped   time.Time // where Steps is set: the last step of a clock
	strangers sync.WaitGroup
	started   int // of strangers

	mu     sync.Mutex
	h      *history.History
	stats  Stats
	failed error              // why the run itself is wrong
	books  []*simtest.Balance // of each client that was opened
}

// lock is one lock's name and the register that it guards, fenced by tokens.
type lock struct {
	name      string
	rw        bool
	semaphore bool // one of the semaphore's locks, which are taken through the semaphore

	mu    sync.Mutex
	fence int64
	value int64
}

// Run runs cfg once. The history holds operations of all clients, the faults, a probe of every lock after the last fault and
// what keys were found at the end. An error is one of the run itself, not of a promise. Everything it started has ended
// when it returns.
func Run(seed uint64, cfg Config) (*history.History, Stats, error) {
	w := newWorld(seed, cfg.withDefaults())
	err := w.run()
	slices.SortStableFunc(w.h.Ops, func(a, b history.Op) int { return int(a.Call - b.Call) })
	return w.h, w.stats, err
}

// newWorld makes masters, clients and locks. It starts nothing.
func newWorld(seed uint64, cfg Config) *world {
	w := &world{cfg: cfg, seed: seed, start: time.Now(), h: &history.History{Header: history.Header{
		Started: time.Now(), Seed: seed, Driver: "sim", Masters: cfg.Masters, TTL: cfg.MaxTTL, Promises: cfg.Promises(),
	}}}
	rnd := w.rand("world")
	for i := range cfg.Masters {
		m := nodetest.NewMaster(fmt.Sprintf("m%d", i))
		m.StepClock(time.Duration(rnd.Int64N(int64(4*time.Second))) - 2*time.Second)
		w.masters = append(w.masters, m)
	}
	order := rnd.Perm(cfg.Masters)
	w.forgetful = order[:(cfg.Masters-1)/2]
	if cfg.Operated {
		w.forgetful = order[:2] // and the operator sees to it that no list has too many of them
	}
	if cfg.Amnesia {
		w.forgetful = order
	}
	for j, i := range order {
		w.masters[i].SetClockRate(rate(rnd, cfg.does("skew-clocks") && j < len(w.forgetful)))
	}
	for i := range cfg.Locks {
		w.locks = append(w.locks, &lock{name: fmt.Sprintf("lock-%d", i), rw: i%4 == 0})
	}
	for i := range cfg.Permits {
		w.locks = append(w.locks, &lock{name: fmt.Sprintf("%s:slot:%d", semaphoreName, i+1), semaphore: true})
	}
	if cfg.Permits > 0 {
		w.locks = append(w.locks, &lock{name: semaphoreName + ":turn", semaphore: true})
	}
	for i := range cfg.Clients {
		w.members = append(w.members, w.newMember(i))
	}
	if cfg.Operated {
		w.op = w.newOperator()
	}
	return w
}

func (w *world) run() error {
	defer func() {
		for _, m := range w.members {
			m.close()
		}
	}()
	if err := w.begin(); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	var workers, nemeses sync.WaitGroup
	stop := make(chan struct{})
	if !w.cfg.Calm {
		for _, m := range w.members {
			m.rough.Store(true)
		}
		nemeses.Go(func() { w.nemesis(stop) })
	}
	if w.op != nil {
		for _, m := range w.members {
			nemeses.Go(func() { m.live(stop) })
		}
		nemeses.Go(func() { w.op.run(stop) })
	}
	until := w.start.Add(w.cfg.Duration)
	for _, m := range w.members {
		workers.Go(func() { m.work(until) })
	}
	workers.Wait()
	close(stop)
	nemeses.Wait()
	w.strangers.Wait()
	w.always()
	for _, m := range w.members {
		m.rough.Store(false)
	}
	if err := w.settle(); err != nil {
		return err
	}
	if w.cfg.Left {
		w.lookForLeft()
	}
	failed := w.probe()
	w.readRegisters()
	for _, m := range w.members {
		m.close()
	}
	// Longer than anything may live that nobody renews: a lease, a sign of life, a queue.
	time.Sleep(w.cfg.MaxTTL*2 + 2*time.Minute)
	w.scan()
	return errors.Join(failed, w.unbalanced())
}

// balanced has the Observer of a client told what it does, to be judged at the end.
func (w *world) balanced() redlock.Option {
	b := new(simtest.Balance)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.books = append(w.books, b)
	return redlock.WithObserver(b.Observer())
}

// unbalanced returns an error if an Observer was told of what cannot be, or was not told of an end.
func (w *world) unbalanced() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.books {
		err = errors.Join(err, b.Err())
	}
	return err
}

// begin lets the masters vote, and opens the clients.
func (w *world) begin() error {
	if w.op != nil {
		if err := w.op.init(false); err != nil {
			return err
		}
	} else if err := w.members[0].init(); err != nil {
		return err
	}
	for i, m := range w.members {
		open := func() error { return m.open(context.Background()) }
		if w.op != nil {
			open = func() error { return m.openList(w.op.right) }
		}
		if err := open(); err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
	}
	return nil
}

// fail keeps an error of the run itself.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, err)
}

func (w *world) now() int64 { return int64(time.Since(w.start)) }

func (w *world) record(ops ...history.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h.Ops = append(w.h.Ops, ops...)
}

// rand is a source of its own for each part of the world: what one draws does not depend on what another did.
func (w *world) rand(part string) *rand.Rand {
	var b [32]byte
	copy(b[8:], part)
	for i := range 8 {
		b[i] = byte(w.seed >> (8 * i))
	}
	return rand.New(rand.NewChaCha8(b))
}

// instant is a source that gives one number at any one instant, whoever asks and however often: what several goroutines draw
// at the same time does not depend on who comes first.
type instant struct {
	key   uint64
	start time.Time
}

func (w *world) instant(part string) instant { return instant{w.rand(part).Uint64(), w.start} }

func (i instant) Uint64() uint64 { return rand.NewPCG(i.key, uint64(time.Since(i.start))).Uint64() }
