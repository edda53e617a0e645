// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// clusterWait is TTL and maximum TTL of tests in which a slot gets another master.
const clusterWait = 2 * time.Second

var clusterOpts = []redlock.Option{redlock.WithTTL(clusterWait), redlock.WithMaxTTL(clusterWait),
	redlock.WithoutRenewal(), redlock.WithNodeTimeout(time.Second)}

// slot is the slot of a tag in a cluster, as one of a client's masters.
type slot struct {
	*quorumtest.Cluster
	t   *testing.T
	tag string
}

// lock is a lock's name with the tag.
func (s slot) lock(name string) string { return "{" + s.tag + "}:" + name }

func (s slot) record() string { return protocol.RecordKey + ":{" + s.tag + "}" }

// phase is what the slot's record on server i lets it do; 0 when it has none, or not the
// slot.
func (s slot) phase(i int) membership.Phase {
	s.t.Helper()
	text, err := s.Direct[i].HGet(context.Background(), s.record(), "state").Result()
	if err != nil {
		return 0
	}
	rs, err := membership.ParseRecordState(text)
	noErr(s.t, err)
	return rs.Phase
}

// has says whether server i has key.
func (s slot) has(i int, key string) bool { return slices.Contains(s.Keys(i), key) }

// The stages share one cluster, because a cluster takes three seconds to start.
func TestCluster(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	cl := quorumtest.StartCluster(t, localredis.Always, time.Minute)
	stage := func(name string, master int, f func(*testing.T, slot)) bool {
		return t.Run(name, func(t *testing.T) {
			cl := cl.In(t)
			f(t, slot{cl, t, cl.Tag(master)})
		})
	}
	_ = stage("oneSlotAsMaster_locksAsOnAnyOther", 0, clusterLocks) &&
		stage("slotIsElsewhere_waitersAreTold", 0, clusterWaits) && // makes 0 the replica, of 3
		stage("slotIsElsewhere_whoCameFirstIsServed", 3, clusterServesInOrder) &&
		stage("failover_promotedReplicaRecoversFirst", 3, clusterFailover) &&
		stage("slotMoves_noVoteTwiceAndRecoversFirst", 1, clusterMigration) &&
		stage("wholeCluster_oneVoteOfEachMaster", 0, clusterWhole)
}

// The slot and two plain masters, one of which is down: whatever is locked has a vote
// in the slot.
func clusterLocks(t *testing.T, s slot) {
	ms := startMasters(t, 2, localredis.Config{})
	urls := append(ms.urls(), s.URL(s.tag, 2, 3)) // neither has the slot
	initAt(t, urls)
	c := openAt(t, urls, redlock.WithClientName("")) // no label, so that it is seen that nothing is sent

	braced := "{" + s.tag + "}"
	for _, name := range []string{"orders", "{other}:orders", "{}" + braced + ":orders", "{" + s.tag + ":orders", "orders}" + s.tag + "{"} {
		for _, m := range []redlock.Locker{c.Mutex(name), c.RWMutex(name).RLocker()} {
			_, err := m.TryLock(t.Context())
			wantIs(t, err, redlock.ErrConfig)
			wantText(t, err, `"`+name+`"`, braced, `"`+s.lock(name)+`"`, "cluster:"+s.tag)
		}
	}
	if keys := append(ms.keys("*orders*"), s.Keys(0)...); !slices.Equal(keys, []string{s.record()}) {
		t.Errorf("something was sent: %v", keys)
	}
	for _, name := range []string{braced, s.lock("orders"), "orders of " + braced + ", {all}"} {
		l := locked(t, c.Mutex(name))
		settled(t, l, 3)
		unlock(t, l)
	}

	for url, says := range map[string]string{
		"redis://" + s.Servers[0].Addr():                             "redis-cluster://",
		"redis-cluster://" + ms.servers[0].Addr() + "/?tag=" + s.tag: "use redis://",
	} {
		n, err := node.Open(url, node.Config{})
		noErr(t, err)
		wantText(t, n.Ready(t.Context()), says)
		noErr(t, n.Close())
	}
	two, err := redlock.Open(t.Context(), append(urls, s.URL("other", 1)), redlock.WithNodeCount(4))
	if err == nil {
		_ = two.Close()
	}
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, braced, "{other}")

	noErr(t, ms.servers[1].Kill())
	ready := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Servers[1].Addr()}})
	t.Cleanup(func() { _ = ready.Close() })
	n, err := node.New(ready, node.Config{Tag: s.tag, StallAfter: time.Second})
	noErr(t, err)
	nodes := []node.Node{n}
	for _, u := range ms.urls() {
		n, err := node.Open(u, node.Config{StallAfter: time.Second})
		noErr(t, err)
		nodes = append(nodes, n)
	}
	mixed, err := redlock.New(t.Context(), nodes, patient)
	noErr(t, err)
	t.Cleanup(func() { _ = mixed.Close() })

	lock := s.lock("lock")
	visited(t, lock, quorumtest.Scale(150, 20_000), c, mixed, openAt(t, urls))

	// Every kind of key at once.
	reader := locked(t, c.RWMutex(lock).RLocker())
	got := waitFor(t.Context(), mixed.RWMutex(lock).Locker())
	queued(t, mixed, lock, 1) // a quorum is the slot and the plain master that is up
	keys := s.Keys(0)
	for _, k := range keys {
		if s.Slot(k, 0) != s.Slot(lock, 0) {
			t.Errorf("%q is outside of the slot", k)
		}
	}
	for _, k := range []string{lock, s.record(), "redlock:queue::" + lock, "redlock:alive:" + braced + ":", lock + ":" + reader.Holder() + ":rwlock_timeout:1"} {
		if !slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, k) }) {
			t.Errorf("no %s among %v", k, keys)
		}
	}
	if others := append(s.Keys(1), s.Keys(2)...); len(others) > 0 {
		t.Errorf("keys outside of the slot: %v", others)
	}
	unlock(t, reader)
	unlock(t, inTime(t, got, 3*time.Second).lease)
	soon(t, "the votes are given back", func() bool {
		return !slices.ContainsFunc(s.Keys(0), func(k string) bool { return strings.HasPrefix(k, lock) })
	})
}

// visited has three visitors of each client use the lock on both sides, n times in all.
func visited(t *testing.T, lock string, n int, clients ...*redlock.Client) {
	t.Helper()
	replay.Each(t, func(t *testing.T, seed uint64) { visits(t, t, seed, lock, n, clients...) })
}

// visits tells always what no stall excuses.
func visits(t, always testing.TB, seed uint64, lock string, n int, clients ...*redlock.Client) {
	rng := replay.RNG(seed)
	l := &library{always: always, tokens: make(map[int64]bool)}
	var wg sync.WaitGroup
	for _, c := range clients {
		for range 3 {
			v := &visitor{l, replay.RNG(rng.Uint64()), c.RWMutex(lock, redlock.WithReentry())}
			wg.Go(func() {
				for l.visits() < n && !t.Failed() {
					if err := v.visit(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// A client whose only master is the slot is told by its servers, whichever have it:
// where the slot is, or where it was when it subscribed.
func clusterWaits(t *testing.T, s slot) {
	opts := []redlock.Option{redlock.WithTTL(30 * time.Second), redlock.WithNodeCount(1), redlock.WithUnsafeRecoveryOff(), redlock.WithNodeTimeout(time.Second),
		redlock.WithOutageTimeout(20 * time.Second)} // the slot may be on its way to a server for a while
	a, b := openAt(t, []string{s.URL(s.tag, 1)}, opts...), openAt(t, []string{s.URL(s.tag, 2)}, opts...)
	handOver := func(from, to *redlock.Client, meanwhile func()) {
		t.Helper()
		held := locked(t, from.Mutex(s.lock("lock")))
		got := waitFor(t.Context(), to.Mutex(s.lock("lock")))
		queued(t, to, s.lock("lock"), 1)
		meanwhile()
		_ = held.Unlock(t.Context())                   // not confirmed where the slot has to be found again
		unlock(t, inTime(t, got, 3*time.Second).lease) // untold it looks again after 5 s
	}
	handOver(a, b, func() {})
	handOver(a, b, func() { s.Promote(3) }) // server 0 lives on as its replica
	handOver(b, a, func() {
		_, finish := s.Migrate(s.tag, 3, 2)
		finish()
	})
	handOver(a, b, func() {})
}

// docs/safety.md A11. The slot's master dies with a vote that its replica never heard
// of. The replica is promoted, and votes only when it has recovered.
func clusterFailover(t *testing.T, s slot) {
	ms := startMasters(t, 2, localredis.Config{})
	urls := append(ms.urls(), s.URL(s.tag, 0, 1, 3))
	initAt(t, urls, clusterOpts...)
	c := openAt(t, urls, clusterOpts...)
	before := locked(t, c.Mutex(s.lock("before")))
	unlock(t, before)

	hears := s.Deafen(0)
	held := ms.bare(c, 1, s.lock("held"))
	noErr(t, s.Servers[3].Kill())
	hears()
	promoted := time.Now()
	s.Promote(0, "force")
	other := openAt(t, urls, clusterOpts...)
	soon(t, "it recovers", func() bool { return s.phase(0) == membership.Quarantined })
	heldToItsEnd(t, held, other, s.lock("else"))
	soon(t, "it votes again", func() bool { return s.phase(0) == membership.Voting })
	if d := time.Since(promoted); d < clusterWait {
		t.Errorf("it voted %v after it was promoted", d)
	}
	noErr(t, ms.servers[1].Kill()) // now the slot is needed
	s.locksAfter(before, c, 0)
}

// A slot moves to another master of its cluster, and every vote is on disk at both. While
// some of its keys are here and some there, neither master votes. The new one recovers
// first, although a record came with the keys; votes that came are given back as others.
func clusterMigration(t *testing.T, s slot) {
	ms := startMasters(t, 2, localredis.Config{})
	urls := append(ms.urls(), s.URL(s.tag, 0, 1, 2))
	initAt(t, urls, clusterOpts...)
	c, other := openAt(t, urls, clusterOpts...), openAt(t, urls, clusterOpts...)
	before := locked(t, c.Mutex(s.lock("before")))
	unlock(t, before)

	left, moved := ms.bare(c, 1, s.lock("left")), ms.bare(c, 1, s.lock("moved"))
	refused := func(when string) {
		t.Helper()
		for _, lease := range []*redlock.Lease{left, moved} {
			l, err := other.Mutex(lease.Name()).TryLock(t.Context())
			switch {
			case err != nil:
			case lease.Err() == nil:
				t.Fatalf("%s: %s has %s and %s has it", when, l.Holder(), l.Name(), lease.Holder())
			default:
				t.Logf("%s: too slow: the lease of %s has ended before it could be given twice", when, l.Name())
				unlock(t, l)
			}
		}
		if l := locked(t, other.Mutex(s.lock("free"))); redlock.CountedVotes(l) > 2 {
			t.Errorf("%s: the slot votes", when)
		} else {
			unlock(t, l)
		}
	}
	move, finish := s.Migrate(s.tag, 1, 2)
	refused("nothing has moved")
	move(s.lock("moved"))
	refused("a vote has moved")
	move(s.record())
	refused("the record has moved")
	move(s.lock("left"))
	refused("all keys have moved")
	finished := time.Now()
	finish()
	soon(t, "the new master recovers", func() bool { return s.phase(2) == membership.Quarantined })
	_ = moved.Unlock(t.Context()) // the slot may not have been found again: then it is owed
	soon(t, "a vote that has moved is given back", func() bool { return !s.has(2, s.lock("moved")) })
	heldToItsEnd(t, left, other, s.lock("else"))
	soon(t, "it votes again", func() bool { return s.phase(2) == membership.Voting })
	if d := time.Since(finished); d < clusterWait {
		t.Errorf("it voted %v after it was given the slot", d)
	}
	noErr(t, ms.servers[1].Kill())
	s.locksAfter(before, other, 2)
}

// heldToItsEnd has another client try for a lock that is held, until it is not, and
// lock another one, called free, meanwhile: all but one master are there.
func heldToItsEnd(t testing.TB, held *redlock.Lease, other *redlock.Client, free string) {
	t.Helper()
	if held.Err() != nil {
		t.Log("too slow: the lease has ended before it could be given twice")
	}
	meter := stall.Start()
	defer meter.Stop()
	before := meter.Held() // in all rounds that went well
	for held.Err() == nil {
		l, err := other.Mutex(held.Name()).TryLock(t.Context())
		if err == nil {
			if held.Err() == nil {
				t.Fatalf("%s has it while %s does, which is valid until %v", l.Holder(), held.Holder(), held.ValidUntil())
			}
			err = l.Unlock(t.Context())
		} else if errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrRecovering) {
			err = nil
		}
		if err == nil {
			err = locked(t, other.Mutex(free)).Unlock(t.Context())
		}
		now := meter.Held()
		switch silent := errors.Is(err, redlock.ErrUnreachable) || errors.Is(err, redlock.ErrUnconfirmed); {
		case err == nil:
			before = now
		case silent && now-before > clusterWait/6: // half of what masters have for their answers
			t.Logf("while the machine held it up for %v: %v", now-before, err)
		default:
			t.Fatal(err)
		}
	}
}

// locksAfter locks what before was the lease of, with a vote of server i.
func (s slot) locksAfter(before *redlock.Lease, c *redlock.Client, i int) {
	s.t.Helper()
	l := locked(s.t, c.Mutex(before.Name()))
	if l.Token() <= before.Token() {
		s.t.Errorf("token %d after %d", l.Token(), before.Token())
	}
	if !s.has(i, before.Name()) {
		s.t.Error("the slot's new master has no vote")
	}
	unlock(s.t, l)
}

// The masters of the client are one slot of a cluster and two plain masters. The slot's master is
// killed or frozen again and again, with votes that its replica does not have. The replica takes
// over, and the slot also moves to other servers. At any time one of the plain masters is asked for
// no vote, so every lock has a vote in the slot and lacks one of a plain master. There are never two
// holders, and tokens grow.
func TestCluster_failsOverAgainAndAgain_oneHolder(t *testing.T) {
	needs.Soak(t) // takes minutes
	replay.Each(t, failsOverAgainAndAgain)
}

func failsOverAgainAndAgain(t *testing.T, seed uint64) {
	rng := replay.RNG(seed)
	const ttl = 4 * time.Second
	cl := quorumtest.StartCluster(t, localredis.None, 500*time.Millisecond)
	s := slot{cl, t, cl.Tag(0)}
	ms := startMasters(t, 2, localredis.Config{})
	urls := append(ms.urls(), s.URL(s.tag, 0, 1, 2, 3))
	var closed atomic.Int32 // the plain master that is asked for no vote
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithoutRenewal()}
	initAt(t, urls, opts...)

	var mu sync.Mutex
	var held *redlock.Lease
	var last int64
	grants := 0
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		var nodes []node.Node
		for i, u := range urls {
			n, err := node.Open(u, node.Config{})
			noErr(t, err)
			nodes = append(nodes, n)
			if i < 2 {
				nodes[i] = closing{n, func() bool { return closed.Load() == int32(i) }}
			}
		}
		c, err := redlock.New(t.Context(), nodes, opts...)
		noErr(t, err)
		t.Cleanup(func() { _ = c.Close() })
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				mu.Lock()
				before := last
				mu.Unlock()
				l, err := c.Mutex(s.lock("lock"), redlock.WithoutFairness()).Lock(ctx)
				if err != nil {
					continue
				}
				mu.Lock()
				if held != nil && held.Err() == nil && l.Err() == nil {
					t.Errorf("%s has it and %s has it", held.Holder(), l.Holder())
				}
				if l.Token() <= before {
					t.Errorf("token %d after %d", l.Token(), before)
				}
				held, last = l, max(last, l.Token())
				grants++
				mu.Unlock()
				select { // some for a moment, some to the end
				case <-time.After(time.Duration(rng.Int64N(int64(20 * time.Millisecond)))):
				case <-l.Context().Done():
				}
				if rng.IntN(4) == 0 {
					<-l.Context().Done()
				}
				mu.Lock()
				if held == l {
					held = nil
				}
				mu.Unlock()
				_ = l.Unlock(context.Background())
			}
		})
	}
	wg.Go(func() {
		for ; ctx.Err() == nil; closed.Store(1 - closed.Load()) {
			time.Sleep(200 * time.Millisecond)
		}
	})
	master, done := 0, map[string]int{}
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end) && !t.Failed(); {
		what := []string{"killed", "frozen", "moved"}[rng.IntN(3)]
		done[what]++
		hears := func() {}
		if what != "moved" {
			hears = s.Deafen(3 - master)
			time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
		}
		switch what {
		case "killed":
			noErr(t, s.Servers[master].Kill())
			hears()
			s.Promoted(3 - master)
			noErr(t, s.Servers[master].Restart(t.Context()))
			master = 3 - master
		case "frozen":
			noErr(t, s.Servers[master].Pause())
			hears()
			soon(t, "the replica is promoted", func() bool { return s.Owner(s.tag, 1) == 3-master })
			time.Sleep(time.Duration(rng.Int64N(int64(2 * ttl))))
			noErr(t, s.Servers[master].Resume())
			master = 3 - master
		case "moved":
			_, finish := s.Migrate(s.tag, master, 1)
			finish()
			time.Sleep(time.Duration(rng.Int64N(int64(ttl))))
			_, finish = s.Migrate(s.tag, 1, master)
			finish()
		}
		s.Promoted(master)
		time.Sleep(time.Duration(rng.Int64N(int64(2 * ttl))))
	}
	stop()
	wg.Wait()
	t.Logf("%d grants; its master %v", grants, done)
}

// closing is a master that may be asked for no vote.
type closing struct {
	node.Node
	closed func() bool
}

func (c closing) Submit(op *protocol.Op) bool {
	if op.Kind == protocol.Acquire && c.closed() {
		op.Reply = protocol.Reply{Outcome: protocol.NotSent, Err: node.ErrDown}
		return false
	}
	return c.Node.Submit(op)
}

// A connection to a slot is given up after 1.5 s of idleness, and the search for the master begins at another server of the
// cluster. That server is not the master: what it says of itself must not make the client doubt the master that it finds then.
func TestCluster_idleForLongerThanAConnectionLasts_nextLockAtOnce(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	cl := quorumtest.StartCluster(t, localredis.None, time.Minute)
	tag := cl.Tag(0)
	urls := []string{cl.URL(tag, 1, 2)} // none of the seeds is the slot's master
	opts := []redlock.Option{redlock.WithNodeCount(1)}
	initAt(t, urls, opts...)
	c := openAt(t, urls, opts...)
	m := c.Mutex("{" + tag + "}:x")
	noErr(t, locked(t, m).Unlock(t.Context()))
	time.Sleep(1600 * time.Millisecond)
	l, err := m.TryLock(t.Context())
	noErr(t, err)
	noErr(t, l.Unlock(t.Context()))
}
