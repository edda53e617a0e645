// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// library sees who is inside a read-write lock, and which tokens they bring.
type library struct {
	always testing.TB // told what no stall excuses

	mu               sync.Mutex
	readers, writers int
	reads, writes    int
	shared, most     int // reads that found another inside, and the largest number at one time
	granted          int64
	tokens           map[int64]bool
}

// before is the largest token that was granted by now.
func (l *library) before() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

// token is one more lease, of a Lock that began when before had been granted.
func (l *library) tokenLocked(token, before int64) {
	if l.tokens[token] || token <= before {
		l.always.Errorf("token %d, again or not above the %d of before", token, before)
	}
	l.tokens[token] = true
	l.granted = max(l.granted, token)
}

func (l *library) read(token, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokenLocked(token, before)
	if l.writers > 0 {
		l.always.Error("a reader beside a writer")
	}
	l.enterLocked()
}

func (l *library) enterLocked() {
	l.readers++
	l.reads++
	l.most = max(l.most, l.readers)
	if l.readers > 1 {
		l.shared++
	}
}

func (l *library) write(token, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokenLocked(token, before)
	if l.writers > 0 || l.readers > 0 {
		l.always.Errorf("a writer beside %d writers and %d readers", l.writers, l.readers)
	}
	l.writers++
	l.writes++
}

// downgrade makes a reader of the writer, in one step.
func (l *library) downgrade(token, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokenLocked(token, before)
	l.writers--
	l.enterLocked()
}

func (l *library) leave(read bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if read {
		l.readers--
	} else {
		l.writers--
	}
}

func (l *library) visits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads + l.writes
}

// noVotes waits until nobody has a vote for the lock called "lock", for reading or for
// writing. Votes that did not make the quorum are given back a little later.
func noVotes(t testing.TB, masters *quorumtest.Masters) {
	t.Helper()
	masters.GivenBack("lock", "*rwlock_timeout*")
}

// visitor is one goroutine that wants the lock again and again, on either side and
// in every way.
type visitor struct {
	*library
	rng *rand.Rand
	rw  *redlock.RWMutex
}

func (v *visitor) visit(ctx context.Context) error {
	side, read := v.rw.Locker(), v.rng.IntN(10) > 0
	if read {
		side = v.rw.RLocker()
	}
	before := v.before()
	var lease *redlock.Lease
	var err error
	switch v.rng.IntN(10) {
	case 0:
		lease, err = side.TryLock(ctx)
	case 1:
		if lease, err = inside.LockFor(ctx, side, time.Duration(v.rng.IntN(5))*time.Millisecond); errors.Is(err, redlock.ErrUnreachable) {
			return nil // no time for an answer
		}
	default:
		lease, err = side.Lock(ctx)
	}
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return nil
	case err != nil:
		return err
	}
	if read {
		v.read(lease.Token(), before)
	} else {
		v.write(lease.Token(), before)
	}
	v.stay()
	switch way := v.rng.IntN(10); {
	case way == 0:
		inner, err := side.Lock(lease.Context())
		if err != nil {
			return fmt.Errorf("re-entering: %w", err)
		}
		v.stay()
		if err := inner.Unlock(context.Background()); err != nil {
			return fmt.Errorf("leaving again: %w", err)
		}
	case way == 1 && read:
		if _, err := v.rw.Lock(lease.Context()); !errors.Is(err, redlock.ErrUpgrade) {
			return fmt.Errorf("upgrade: %w", err)
		}
	case way < 4 && !read:
		before := v.before()
		reading, err := v.rw.RLock(lease.Context())
		if err != nil {
			return fmt.Errorf("downgrading: %w", err)
		}
		v.stay()
		v.downgrade(reading.Token(), before)
		if err := lease.Unlock(context.Background()); err != nil {
			return fmt.Errorf("unlocking the write lease: %w", err)
		}
		lease, read = reading, true
		v.stay()
	}
	if err := lease.Err(); err != nil {
		return err
	}
	v.leave(read)
	return lease.Unlock(context.Background())
}

func (v *visitor) stay() { time.Sleep(time.Duration(v.rng.IntN(1000)) * time.Microsecond) }

// Four clients with four goroutines each take both sides, with every method. A writer is always alone,
// and readers are together. Every token is unique, and larger than all tokens that were granted
// before its Lock began.
//
// Readers must be together, and there must be writers, or it shows nothing. In 14 runs beside 20 busy processes 47 % of the reads (standard deviation
// 3 %) found another inside, 4 or more at one time, and there were 38 writes (standard deviation 3.7): the bounds are 11 and 7 sigma away.
func TestRWMutex_contended_writersAloneReadersTogether(t *testing.T) {
	needs.Test(t)
	replay.Each(t, func(t *testing.T, seed uint64) {
		stall.Try(t, time.Second, func(try testing.TB) { contendedReadersAndWriters(try, t, seed) })
	})
}

func contendedReadersAndWriters(t, always testing.TB, seed uint64) {
	rng := replay.RNG(seed)
	masters := quorumtest.Start(t, 5)
	visits := quorumtest.Scale(400, 50_000)
	l := &library{always: always, tokens: make(map[int64]bool)}
	began := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		rw := masters.Open().RWMutex("lock", redlock.WithReentry())
		for range 4 {
			v := &visitor{l, rand.New(rand.NewPCG(rng.Uint64(), 0)), rw}
			wg.Go(func() {
				for l.visits() < visits && !t.Failed() {
					if err := v.visit(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d reads and %d writes in %v; %d reads found another inside, %d at one time at most",
		l.reads, l.writes, time.Since(began).Round(time.Millisecond), l.shared, l.most)
	if l.shared < l.reads/10 || l.most < 3 || l.writes < visits/40 {
		t.Error("that is too little to mean anything")
	}
	noVotes(t, masters)
	masters.NothingLeft()
}

// When the writer unlocks, all waiting readers get the lock together. When the last reader unlocks, a
// writer can get it.
func TestRWMutex_readers_holdTogether(t *testing.T) {
	stall.Try(t, then/2, func(t testing.TB) {
		const n = 6
		masters := quorumtest.Start(t, 5)
		c := masters.Open()
		writer := lock(t, c.RWMutex("lock").Locker())
		var waiting []<-chan outcome
		for i := range n {
			waiting = append(waiting, waitFor(t.Context(), masters.Open().RWMutex("lock").RLocker()))
			waiting = append(waiting, waitFor(t.Context(), c.RWMutex("lock").RLocker()))
			masters.Waits("lock", i+2)
		}
		_, err := c.RWMutex("lock").TryRLock(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		_, err = c.RWMutex("lock").TryLock(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		unlock(t, writer)
		var readers []*redlock.Lease
		for _, got := range waiting {
			readers = append(readers, must(t, got, then).lease) // nobody has left yet
		}
		for _, r := range readers {
			quorumtest.NoErr(t, r.Err())
			_, err := c.RWMutex("lock").TryLock(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
			unlock(t, r)
		}
		unlock(t, lock(t, c.RWMutex("lock").Locker()))
		noVotes(t, masters)
	})
}

// The host of one reader loses its power, and another reader goes on and renews its lease. The votes
// of the dead reader end with their own TTL. So a writer gets the lock as soon as the living reader
// unlocks.
func TestRWMutex_readerDies_freesItselfAlone(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, then/2, func(t testing.TB) {
		const ttl = 1500 * time.Millisecond
		masters := quorumtest.Start(t, 5)
		path := masters.Path()
		doomed := lock(t, path.Open(redlock.WithTTL(ttl)).RWMutex("lock").RLocker())
		alive := lock(t, masters.Open(redlock.WithTTL(3*ttl)).RWMutex("lock").RLocker())
		writer := waitFor(t.Context(), masters.Open().RWMutex("lock").Locker())
		masters.Waits("lock", 1)

		path.Vanish()
		<-doomed.Context().Done()
		quorumtest.Is(t, doomed.Err(), redlock.ErrLost)
		quorumtest.Soon(t, "its TTL is over", func() bool { return len(masters.Keys("*rwlock_timeout*")) == 5 })
		quorumtest.NoErr(t, alive.Extend(t.Context()))
		select {
		case <-writer:
			t.Fatal("a writer beside a reader")
		default:
		}
		released := time.Now()
		unlock(t, alive)
		o := must(t, writer, 3*ttl)
		if took := o.at.Sub(released); took > then {
			t.Errorf("the writer had it %v after the last living reader", took)
		}
		unlock(t, o.lease)
	})
}

// Of two readers, the one with the longer TTL unlocks, and the other one dies. A writer that waits had
// seen the longer TTL, and still gets the lock when the shorter one is over.
func TestRWMutex_lastReaderDies_writerHasItAfterItsTTL(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, then/2, func(t testing.TB) {
		const ttl = 1500 * time.Millisecond
		masters := quorumtest.Start(t, 5)
		path := masters.Path()
		leaving := lock(t, masters.Open(redlock.WithTTL(20*ttl)).RWMutex("lock").RLocker())
		lock(t, path.Open(redlock.WithTTL(ttl)).RWMutex("lock").RLocker())
		w := masters.Open()
		writer := waitFor(t.Context(), w.RWMutex("lock").Locker())
		masters.Waits("lock", 1)
		waitSettled(t, w)

		path.Vanish()
		died := time.Now()
		unlock(t, leaving)
		o := must(t, writer, 10*ttl)
		if took := o.at.Sub(died); took > ttl+then {
			t.Errorf("the writer waited %v, want %v or less", took, ttl+then)
		}
		unlock(t, o.lease)
	})
}

// A writer becomes a reader. Until it has unlocked both leases, no other caller writes. Writers that
// wait do not delay the downgrade.
func TestRWMutex_downgrade_nobodyWritesBetween(t *testing.T) {
	needs.EveryServer(t)
	stall.Try(t, then/2, func(t testing.TB) {
		masters := quorumtest.Start(t, 5)
		c, other := masters.Open(), masters.Open()
		rw := c.RWMutex("lock")
		writing := lock(t, rw.Locker())
		waiting := waitFor(t.Context(), other.RWMutex("lock").Locker())
		masters.Waits("lock", 1)

		type way func(ctx context.Context) (*redlock.Lease, error)
		var reading []*redlock.Lease
		last := writing.Token()
		for name, enter := range map[string]way{
			"Lock": rw.RLocker().Lock, "TryLock": rw.RLocker().TryLock,
			"WithMaxWait": func(ctx context.Context) (*redlock.Lease, error) { return inside.LockFor(ctx, rw.RLocker(), then) },
		} {
			r, err := enter(writing.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r.Token() <= last || r.Holder() == writing.Holder() {
				t.Errorf("%s: token %d after %d, holder %s", name, r.Token(), last, r.Holder())
			}
			last = r.Token()
			reading = append(reading, r)
		}
		unlock(t, writing)
		quorumtest.Soon(t, "it is held for reading everywhere", func() bool {
			return !slices.ContainsFunc(masters.Fields("lock"), func(f map[string]string) bool { return f["mode"] != "read" })
		})
		for _, r := range reading {
			select {
			case <-waiting:
				t.Fatal("a writer beside a reader")
			default:
			}
			quorumtest.NoErr(t, r.Extend(t.Context()))
			_, err := other.RWMutex("lock").TryLock(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
			unlock(t, r)
		}
		o := must(t, waiting, then)
		if o.lease.Token() <= last {
			t.Errorf("token %d after %d", o.lease.Token(), last)
		}
		unlock(t, o.lease)

		// Other readers may join as soon as it has.
		writing = lock(t, rw.Locker())
		r, err := rw.RLock(writing.Context())
		quorumtest.NoErr(t, err)
		waiting = waitFor(t.Context(), other.RWMutex("lock").RLocker())
		masters.Waits("lock", 1)
		unlock(t, writing)
		unlock(t, must(t, waiting, then).lease)
		unlock(t, r)

		// What is over is no reason to read.
		for _, ctx := range []context.Context{writing.Context(), r.Context()} {
			_, err = rw.RLock(ctx)
			quorumtest.Is(t, err, redlock.ErrReleased)
		}
		unlock(t, lock(t, rw.Locker()))
	})
}

// A reader that asks for the lock for writing would wait for itself, so it gets ErrUpgrade at once.
func TestRWMutex_upgrade_isRefusedAtOnce(t *testing.T) {
	needs.Test(t)
	masters := quorumtest.Start(t, 3)
	c, other := masters.Open(), masters.Open()
	rw := c.RWMutex("lock")
	reading := lock(t, rw.RLocker())
	before := c.Stats().Rounds
	inside, cancel := context.WithTimeout(reading.Context(), 15*time.Second)
	defer cancel()
	for name, err := range map[string]error{
		"Lock": errOf(rw.Lock(inside)), "TryLock": errOf(rw.TryLock(inside)),
		"WithMaxWait": errOf(lockWithin(inside, rw, time.Hour)),
		"Do":          rw.Do(inside, func(context.Context, *redlock.Lease) error { t.Error("Do ran"); return nil }),
	} {
		if !errors.Is(err, redlock.ErrUpgrade) {
			t.Errorf("%s: %v, want ErrUpgrade", name, err)
		}
	}
	if n := c.Stats().Rounds - before; n > 0 {
		t.Errorf("%d rounds for it", n)
	}
	quorumtest.NoErr(t, reading.Err())
	// Another client's lease is none of this client's.
	_, err := other.RWMutex("lock").TryLock(inside)
	quorumtest.Is(t, err, redlock.ErrHeld)
	unlock(t, reading)

	// A lock is one kind or the other.
	plain := lock(t, c.Mutex("plain"))
	_, err = c.RWMutex("plain").RLock(plain.Context())
	quorumtest.Is(t, err, redlock.ErrConfig)
	unlock(t, plain)
	masters.NothingLeft()
}

// Readers lock and unlock so that at least one always has the lock. A writer that waits gets the lock
// after the readers that came before it. No later reader passes the writer, also none of those that pass each other.
func TestRWMutex_busyReaders_doNotStarveAWriter(t *testing.T) {
	needs.EveryServer(t)
	t.Run("fair", func(t *testing.T) { busyReaders(t) })
	t.Run("without fairness", func(t *testing.T) { busyReaders(t, redlock.WithoutFairness()) })
}

// busyReaders has the readers lock with these options.
func busyReaders(t *testing.T, opts ...redlock.LockOption) {
	masters := quorumtest.Start(t, 5)
	writer := masters.Open()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	var mu sync.Mutex
	queued, passed, reads, inside := 0, 0, 0, 0 // queued is the number of the write that is waited for in the queues, or 0
	for i := range 4 {
		c := masters.Open()
		for range 2 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for ctx.Err() == nil {
					mu.Lock()
					late := queued
					mu.Unlock()
					lease, err := c.RWMutex("lock", opts...).RLock(ctx)
					if err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					if late > 0 && late == queued {
						passed++
					}
					reads++
					inside++
					mu.Unlock()
					time.Sleep(4 * time.Millisecond)
					mu.Lock()
					inside--
					mu.Unlock()
					if err := lease.Unlock(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	busy := func() bool { mu.Lock(); defer mu.Unlock(); return inside > 1 }
	var waits quorumtest.Times
	for n := range quorumtest.Scale(15, 1000) {
		quorumtest.Soon(t, "readers are inside", busy)
		start := time.Now()
		got := waitFor(t.Context(), writer.RWMutex("lock").Locker())
		var o outcome
		for o.lease == nil { // it need not come to queueing
			select {
			case o = <-got:
				quorumtest.NoErr(t, o.err)
			default:
				if writerQueued(t, masters, "lock") {
					mu.Lock()
					queued = n + 1
					mu.Unlock()
				}
				if time.Since(start) > 15*time.Second {
					t.Fatal("the writer starves")
				}
			}
		}
		mu.Lock()
		queued = 0
		mu.Unlock()
		waits = append(waits, o.at.Sub(start))
		unlock(t, o.lease)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d reads around %d writes; the writer waited %v", reads, len(waits), waits)
	if passed > 0 {
		t.Errorf("%d readers passed a writer that waited", passed)
	}
}

// writerQueued says whether a writer is in a quorum of the lock's queues.
func writerQueued(t *testing.T, masters *quorumtest.Masters, name string) bool {
	n := 0
	for _, d := range masters.Direct {
		waiters, err := d.ZRange(t.Context(), quorumtest.Queue(name), 0, -1).Result()
		quorumtest.NoErr(t, err)
		if slices.ContainsFunc(waiters, func(w string) bool { return strings.HasSuffix(w, "/w") }) {
			n++
		}
	}
	return n > len(masters.Direct)/2
}

// On both sides the masters count re-entries, and a re-entered lease has the same token and holder.
func TestRWMutex_reenter_countsOnBothSides(t *testing.T) {
	needs.EveryServer(t)
	masters := quorumtest.Start(t, 3)
	c, other := openToCount(masters), masters.Open()
	rw := c.RWMutex("lock")
	for name, side := range map[string]struct {
		m      redlock.Locker
		suffix string
	}{"read": {rw.RLocker(), ""}, "write": {rw.Locker(), ":write"}} {
		outer := lock(t, side.m)
		count := func(want string) {
			t.Helper()
			quorumtest.Soon(t, fmt.Sprintf("%s: a hold count of %s everywhere", name, want), func() bool {
				n := 0
				for _, fields := range masters.Fields("lock") {
					if fields["mode"] == name && fields[outer.Holder()+side.suffix] == want && len(fields) == 2 {
						n++
					}
				}
				return n == 3
			})
		}
		count("1")
		inner, err := side.m.Lock(outer.Context())
		quorumtest.NoErr(t, err)
		count("2")
		innermost, err := inner.Reenter(t.Context())
		quorumtest.NoErr(t, err)
		count("3")
		if innermost.Token() != outer.Token() || innermost.Holder() != outer.Holder() {
			t.Errorf("%s: token %d and holder %s inside of %d and %s", name,
				innermost.Token(), innermost.Holder(), outer.Token(), outer.Holder())
		}
		unlock(t, outer)
		count("2")
		unlock(t, innermost)
		count("1")
		_, err = other.RWMutex("lock").TryLock(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		unlock(t, inner)
		noVotes(t, masters)
	}
}

// Unlock of a lease that was lost returns ErrLost, and does not change the leases of others on the
// same lock.
func TestRWMutex_unlockAfterLoss_leavesTheOthers(t *testing.T) {
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		masters := quorumtest.Start(t, 3)
		c, other := masters.Open(redlock.WithoutRenewal(), redlock.WithTTL(300*time.Millisecond)), masters.Open()
		for name, side := range map[string]func(*redlock.RWMutex) redlock.Locker{
			"read": (*redlock.RWMutex).RLocker, "write": (*redlock.RWMutex).Locker,
		} {
			mine := lock(t, side(c.RWMutex("lock")))
			<-mine.Context().Done()
			theirs := lock(t, side(other.RWMutex("lock"))) // a reader at once, a writer when the TTL is over
			quorumtest.Is(t, mine.Unlock(t.Context()), redlock.ErrLost)
			quorumtest.NoErr(t, theirs.Extend(t.Context()))
			_, err := c.RWMutex("lock").TryLock(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
			if err := theirs.Unlock(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			noVotes(t, masters)
		}
	})
}
