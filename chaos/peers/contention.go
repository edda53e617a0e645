// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/redlock"
)

// press is one measurement: so many waiters, spread over clients with connections of their own, want one lock, or each its own.
type press struct {
	library  string
	waiters  int
	clients  int
	hold     time.Duration
	duration time.Duration
	period   time.Duration // a caller asks so often, whether it was answered or not; 0: when it was answered
	salt     string        // in the names of its locks: what a library leaves behind of one measurement does not hinder the next
	own      bool          // each has a lock of its own, and what is timed is acquire and release
	masters  []int         // the processes whose use of processors is measured
	locks    int           // how many there are, which all callers take in turn; 0: each has its own, or all want one
	opened   func() error  // is called when all clients are open, and each has had a lock of its own; nil: nothing
}

// pressed is what a press saw.
type pressed struct {
	rate     float64       // locks a second
	p50      time.Duration // of the wait for a lock, or of acquire and release
	p99      time.Duration
	jain     float64       // 1 is even
	cpu      time.Duration // of this process, for a lock
	masters  time.Duration // of all masters, for a lock
	held     time.Duration // on average: a sleep takes longer than it should
	failures int           // calls that ended without the lock, before the time was over
}

func (p pressed) String() string {
	return fmt.Sprintf("%.0f, %.0f ms, %.2f, %.2f ms", p.rate, ms(p.p99), p.jain, ms(p.cpu))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// contention measures libraries beside each other, on five masters of its own, and prints a row for each cell.
func contention(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("contention", flag.ContinueOnError)
	fs.SetOutput(stderr)
	libs := fs.String("locks", "redlock,redsync", "`NAME,..` libraries")
	waiters := fs.String("waiters", "8,64", "`N,..` waiters for the lock")
	holds := fs.String("holds", "0s,1ms,10ms", "`TIME,..` that a holder keeps it")
	delays := fs.String("delays", "0s", "`TIME,..` that proxies add to each round trip")
	clients := fs.Int("clients", 4, "`N` clients that share the waiters")
	duration := fs.Duration("duration", 4*time.Second, "`TIME` of each measurement")
	if fs.Parse(args) != nil || fs.NArg() > 0 {
		return 2
	}
	counts, err1 := list(*waiters, strconv.Atoi)
	keeps, err2 := list(*holds, time.ParseDuration)
	ways, err3 := list(*delays, time.ParseDuration)
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if *clients < 1 || *duration <= 0 || slices.Min(counts) < 1 {
		fmt.Fprintln(stderr, "contention: want --clients, --waiters and --duration above 0")
		return 2
	}
	names, err := library.Chosen(*libs)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	fmt.Fprintf(stdout, "Each cell: locks a second, p99 of the wait, Jain's index, CPU of the clients for a lock.\n\n")
	fmt.Fprintf(stdout, "| waiters | hold | delay | limit | %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat(" --- |", len(names)+4))
	for _, delay := range ways {
		err := withMasters(ctx, world{delay: delay}, func(b *bed) error {
			trip, err := idleTrip(ctx, b.nodes)
			if err != nil {
				return err
			}
			for _, hold := range keeps {
				for _, n := range counts {
					if err := row(ctx, stdout, b.nodes, trip, delay, names, press{waiters: n, clients: *clients, hold: hold, duration: *duration}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 3
		}
	}
	return 0
}

func list[T any](text string, parse func(string) (T, error)) (all []T, err error) {
	for word := range strings.SplitSeq(text, ",") {
		v, wrong := parse(word)
		all, err = append(all, v), errors.Join(err, wrong)
	}
	return all, err
}

// row measures every library in turn, twice, and prints the better of the two: other work on the machine makes a run slower, never faster.
func row(ctx context.Context, out io.Writer, nodes []string, trip, delay time.Duration, names []string, p press) error {
	best := make([]pressed, len(names))
	for range 2 {
		for i, name := range names {
			p.library = name
			saw, err := p.run(ctx, nodes)
			if err != nil {
				return err
			}
			if saw.rate > best[i].rate {
				best[i] = saw
			}
		}
	}
	limit := best[0].held + trip
	fmt.Fprintf(out, "| %d | %v | %v | %.0f, %.0f ms |", p.waiters, p.hold, delay, float64(time.Second)/float64(limit), ms(limit)*float64(p.waiters))
	for _, b := range best {
		fmt.Fprintf(out, " %v |", b)
	}
	fmt.Fprintln(out)
	return nil
}

// idleTrip is how long it takes to give back a lock that nobody else wants: one round trip. It is the median of 100 times.
func idleTrip(ctx context.Context, nodes []string) (time.Duration, error) {
	c, err := redlock.Open(ctx, nodes, redlock.WithFixedMasters())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	took := make([]time.Duration, 100)
	for i := range took {
		l, err := c.Mutex("trip").Lock(ctx)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if err := l.Unlock(ctx); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// run opens the clients, lets the waiters take the lock in turn, and closes the clients.
func (p press) run(ctx context.Context, nodes []string) (pressed, error) {
	p.salt = newSalt()
	task := client.Task{Nodes: nodes, TTL: 8 * time.Second, MaxTTL: redlock.DefaultMaxTTL}
	var lockers []library.Locker
	defer func() {
		for _, l := range lockers {
			l.Close()
		}
	}()
	for range p.clients {
		l, err := p.open(ctx, task)
		if err != nil {
			return pressed{}, err
		}
		lockers = append(lockers, l)
	}
	if err := p.warm(ctx, lockers); err != nil {
		return pressed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.duration)
	defer cancel()
	saw := make([]turns, p.waiters)
	var wg sync.WaitGroup
	begin, spent, theirs := time.Now(), testbed.Own(), testbed.Used(p.masters)
	for i := range p.waiters {
		wg.Go(func() { saw[i] = p.take(ctx, lockers[i%p.clients], i, begin) })
	}
	wg.Wait()
	// A call that hangs may outlast the measurement, and those that came through it did so within its time.
	return sum(saw, min(time.Since(begin), p.duration), testbed.Own()-spent, testbed.Used(p.masters)-theirs), nil
}

func newSalt() string { return rand.Text()[:8] }

// turns are what one caller saw.
type turns struct {
	waits    []time.Duration
	held     time.Duration // in all
	failures int
}

// take lets caller i take and release until ctx ends.
func (p press) take(ctx context.Context, from library.Locker, i int, begin time.Time) (saw turns) {
	for n := 0; ctx.Err() == nil; n++ {
		asked := p.due(ctx, i, n, begin)
		l, err := from.Take(ctx, p.nameOf(i, n))
		got := time.Now()
		if err != nil {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Millisecond { // etcd's servers know the deadline too, and may be sooner
				saw.failures++ // it gave up, and asks again
			}
			continue
		}
		if p.hold > 0 {
			testbed.Nap(p.hold)
		}
		saw.held += time.Since(got)
		if !p.own {
			saw.waits = append(saw.waits, got.Sub(asked))
		}
		_ = l.Release(context.Background())
		if p.own {
			saw.waits = append(saw.waits, time.Since(asked))
		}
	}
	return saw
}

// due waits until caller i is to ask for the nth time, and returns when that was to be: a caller that is late has waited since then.
func (p press) due(ctx context.Context, i, n int, begin time.Time) time.Time {
	if p.period == 0 {
		return time.Now()
	}
	at := begin.Add(p.period*time.Duration(n) + p.period*time.Duration(i)/time.Duration(p.waiters))
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
	}
	return at
}

// open opens one client of the library.
func (p press) open(ctx context.Context, task client.Task) (library.Locker, error) {
	switch p.library {
	case etcdName:
		return library.OpenEtcd(task)
	case library.Floor, library.Resp:
		return library.OpenFloor(p.library, task)
	}
	l, err := library.Open(ctx, p.library, task)
	return library.Renewed(l), err
}

// name is the lock that a waiter wants.
func (p press) name(i int) string {
	if p.own {
		return fmt.Sprintf("%s-%s-%d", p.library, p.salt, i)
	}
	return p.library + "-" + p.salt
}

// nameOf is the lock that a waiter wants the nth time.
func (p press) nameOf(i, n int) string {
	if p.locks == 0 {
		return p.name(i)
	}
	return fmt.Sprintf("%s-%s-%d", p.library, p.salt, (n*p.waiters+i)%p.locks)
}

// warm lets each caller that has a lock of its own have it once: connections are made, and scripts are loaded. Then it calls opened.
func (p press) warm(ctx context.Context, lockers []library.Locker) error {
	if p.own || p.library == etcdName { // whose sessions are begun then
		if err := p.each(ctx, lockers); err != nil {
			return err
		}
	}
	if p.opened != nil {
		return p.opened()
	}
	return nil
}

// each lets all callers have their locks once.
func (p press) each(ctx context.Context, lockers []library.Locker) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var g errgroup.Group
	for i := range p.waiters {
		g.Go(func() error {
			l, err := lockers[i%p.clients].Take(ctx, p.name(i))
			if err != nil {
				return err
			}
			return l.Release(ctx)
		})
	}
	return g.Wait()
}

// sum makes a result of what the callers saw.
func sum(callers []turns, elapsed, spent, theirs time.Duration) (s pressed) {
	var all []time.Duration
	var squares, held float64
	for _, c := range callers {
		all = append(all, c.waits...)
		squares += float64(len(c.waits)) * float64(len(c.waits))
		held += float64(c.held)
		s.failures += c.failures
	}
	if len(all) == 0 {
		return s
	}
	slices.Sort(all)
	n := float64(len(all))
	s.rate, s.p50, s.p99, s.jain = n/elapsed.Seconds(), all[len(all)/2], all[len(all)*99/100], n*n/(float64(len(callers))*squares)
	s.cpu, s.masters, s.held = time.Duration(float64(spent)/n), time.Duration(float64(theirs)/n), time.Duration(held/n)
	return s
}
