// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// While a cluster is hurt. Its servers take each other for dead after a third of hurtTTL. All of them restart, and answer again, well within hurtMaxTTL: else no client
// would have seen a quorum vote in that time, and an operator would have to begin again.
const (
	hurtTTL    = 3 * time.Second
	hurtMaxTTL = 2 * hurtTTL
)

// The masters of a whole cluster are killed, frozen, and promoted several at once without the last votes, all servers restart together, and
// slots move away and back while the server between crashes. Locks, readers and writers, and permits of a semaphore keep apart, and all three votes are
// there again after each fault.
func TestWholeCluster_hurt_nobodyHoldsTwice(t *testing.T) {
	needs.CI(t)
	t.Parallel()
	replay.Each(t, func(t *testing.T, seed uint64) {
		h := startHurt(t, seed)
		h.run(t, 0)
		if needs.InSoak(t) {
			h.run(t, 5*time.Minute)
		}
		for _, what := range h.wrong {
			t.Error(what)
		}
		for _, what := range []string{"lock", "read", "write", "permit"} {
			if h.did[what] == 0 {
				t.Errorf("nobody did %q: %v", what, h.did)
			}
		}
	})
}

// Without the wait of recovery the same world shows two holders: the test above sees what it is there for.
func TestWholeCluster_hurtWithoutRecovery_found(t *testing.T) {
	needs.Soak(t) // chance needs a minute; TestCluster shows the same of one vote in each run
	replay.Each(t, func(t *testing.T, seed uint64) {
		h := startHurt(t, seed, redlock.WithUnsafeRecoveryOff())
		for range 5 {
			if h.run(t, time.Minute); len(h.wrong) > 0 {
				t.Logf("%s, and %d more", h.wrong[0], len(h.wrong)-1)
				return
			}
		}
		t.Error("never two holders")
	})
}

// hurtCluster is a whole cluster whose servers are struck while clients use it. mu guards what is below it.
type hurtCluster struct {
	*whole
	rng     *rand.Rand
	clients []*redlock.Client
	heals   bool // a vote recovers

	mu    sync.Mutex
	held  map[string][]redlock.Held
	wrong []string
	did   map[string]int
}

func startHurt(t *testing.T, seed uint64, opts ...redlock.Option) *hurtCluster {
	rng := replay.RNG(seed)
	cl := quorumtest.StartFullCluster(t, localredis.Always, hurtTTL/3)
	h := &hurtCluster{whole: wholeOf(t, slot{cl, t, ""}), rng: rng, heals: len(opts) == 0, held: make(map[string][]redlock.Held), did: make(map[string]int)}
	opts = append([]redlock.Option{redlock.WithTTL(hurtTTL), redlock.WithMaxTTL(hurtMaxTTL)}, opts...)
	if h.heals {
		urls, err := redlock.ClusterURLs(h.url)
		noErr(t, err)
		initAt(t, urls, opts...)
	}
	for range 3 {
		c, err := redlock.OpenCluster(t.Context(), h.url, opts...)
		noErr(t, err)
		t.Cleanup(func() { _ = c.Close() })
		h.clients = append(h.clients, c)
	}
	return h
}

// run strikes in each way once, and then on for that long, while all clients work.
func (h *hurtCluster) run(t *testing.T, lasts time.Duration) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, c := range h.clients {
		for range 3 {
			rng := replay.RNG(h.rng.Uint64())
			wg.Go(func() {
				for ctx.Err() == nil {
					h.work(ctx, c, rng)
				}
			})
		}
	}
	strikes := map[string]func(*hurtCluster, int){"killed": (*hurtCluster).killed, "frozen": (*hurtCluster).frozen, "several promoted": (*hurtCluster).severalPromoted,
		"all restarted": (*hurtCluster).allRestarted, "moved and back": (*hurtCluster).movedAndBack}
	names := slices.Sorted(maps.Keys(strikes))
	for end, first := time.Now().Add(lasts), true; (first || time.Now().Before(end)) && !t.Failed(); first = false {
		h.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, what := range names {
			h.note(what)
			strikes[what](h, h.rng.IntN(len(h.tags)))
			h.healed(what)
			time.Sleep(h.upTo(hurtTTL))
		}
	}
	stop()
	wg.Wait()
	t.Log(h.did)
}

func (h *hurtCluster) upTo(d time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(d)))
}

func (h *hurtCluster) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did[what]++
}

// work has a client hold something for a moment, or until it loses it.
func (h *hurtCluster) work(ctx context.Context, c *redlock.Client, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, 2*hurtTTL)
	defer cancel()
	stay := func(l redlock.Held, what, group string, most int) {
		h.holds(l, what, group, most)
		if rng.IntN(2) > 0 {
			sleepFor(l.Context(), time.Duration(rng.Int64N(int64(30*time.Millisecond))))
		} else {
			sleepFor(l.Context(), time.Duration(rng.Int64N(int64(hurtTTL))))
		}
		h.leaves(l, group)
	}
	lock := func(m redlock.Locker, what, group string, most int) {
		l, err := m.Lock(ctx)
		if err != nil {
			sleepFor(ctx, hurtTTL/100)
			return
		}
		stay(l, what, group, most)
		_ = l.Unlock(context.Background()) // not confirmed by masters that are away
	}
	book := c.RWMutex("book")
	switch rng.IntN(4) {
	case 0:
		lock(c.Mutex("lock"), "lock", "lock", 1)
	case 1:
		lock(book.RLocker(), "read", "readers", 1<<10)
	case 2:
		lock(book, "write", "book", 1)
	case 3:
		p, err := semaphore.New(c, "permits", 2).Acquire(ctx)
		if err != nil {
			sleepFor(ctx, hurtTTL/100)
			return
		}
		stay(p, "permit", "permits", 2)
		_ = p.Release(context.Background())
	}
}

// holds notes what was granted. Invariant: no more than most of a group hold at once, and nobody reads while somebody writes.
func (h *hurtCluster) holds(l redlock.Held, what, group string, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did[what]++
	h.held[group] = append(h.held[group], l)
	against, beside := group, most
	if other, ok := map[string]string{"readers": "book", "book": "readers"}[group]; ok && len(valid(h.held[other])) > 0 {
		against, beside = other, 0
	}
	if now := valid(h.held[against]); l.Err() == nil && len(now) > beside {
		h.wrong = append(h.wrong, fmt.Sprintf("%s token %d of %s is granted beside %d others", what, l.Token(), l.Name(), len(now)))
	}
}

func (h *hurtCluster) leaves(l redlock.Held, group string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[group] = slices.DeleteFunc(h.held[group], func(o redlock.Held) bool { return o == l })
}

func valid(held []redlock.Held) []redlock.Held {
	return slices.DeleteFunc(slices.Clone(held), func(l redlock.Held) bool { return l.Err() != nil })
}

// master is the server that has vote i: one of the two of its share, if no slot is away.
func (h *hurtCluster) master(i int) int {
	for _, n := range []int{i, quorumtest.Peer(i)} {
		if h.Servers[n].PID() != 0 && h.Owner(h.tags[i], n) == n {
			return n
		}
	}
	h.t.Fatalf("vote %d has no master", i)
	return -1
}

// deaf has replicas hear nothing for a while: one that is promoted then lacks what its master took meanwhile.
func (h *hurtCluster) deaf(servers ...int) (hears func()) {
	var all []func()
	for _, n := range servers {
		all = append(all, h.Deafen(n))
	}
	time.Sleep(h.upTo(hurtTTL / 2))
	return func() {
		for _, f := range all {
			f()
		}
	}
}

func (h *hurtCluster) killed(i int) {
	master := h.master(i)
	hears := h.deaf(quorumtest.Peer(master))
	noErr(h.t, h.Servers[master].Kill())
	hears()
	h.Promoted(quorumtest.Peer(master))
	noErr(h.t, h.Servers[master].Restart(h.t.Context()))
	h.Promoted(quorumtest.Peer(master))
}

func (h *hurtCluster) frozen(i int) {
	master := h.master(i)
	hears := h.deaf(quorumtest.Peer(master))
	noErr(h.t, h.Servers[master].Pause())
	hears()
	soon(h.t, "the replica is promoted", func() bool { return h.Owner(h.tags[i], quorumtest.Peer(master)) == quorumtest.Peer(master) })
	time.Sleep(h.upTo(2 * hurtTTL))
	noErr(h.t, h.Servers[master].Resume())
	h.Promoted(quorumtest.Peer(master))
}

// severalPromoted has two of three masters die at once, with votes that their replicas lack. No majority is left to elect: an operator has both
// replicas take over, which is right, for the old masters are dead.
func (h *hurtCluster) severalPromoted(i int) {
	a, b := h.master(i), h.master((i+1)%3)
	hears := h.deaf(quorumtest.Peer(a), quorumtest.Peer(b))
	noErr(h.t, h.Servers[a].Kill())
	noErr(h.t, h.Servers[b].Kill())
	hears()
	for _, n := range []int{a, b} {
		noErr(h.t, h.Direct[quorumtest.Peer(n)].Do(context.Background(), "cluster", "failover", "takeover").Err())
	}
	h.Promoted(quorumtest.Peer(a))
	h.Promoted(quorumtest.Peer(b))
	for _, n := range []int{a, b} {
		noErr(h.t, h.Servers[n].Restart(h.t.Context()))
		h.Promoted(quorumtest.Peer(n))
	}
}

// allRestarted is a loss of power.
func (h *hurtCluster) allRestarted(int) {
	for _, s := range h.Servers {
		noErr(h.t, s.Kill())
	}
	for _, s := range h.Servers {
		noErr(h.t, s.Restart(h.t.Context()))
	}
}

// movedAndBack moves the slot of a vote to the master of another one, which may be killed meanwhile, and back.
func (h *hurtCluster) movedAndBack(i int) {
	from, to := h.master(i), h.master((i+1)%3)
	_, finish := h.Migrate(h.tags[i], from, to)
	finish()
	time.Sleep(h.upTo(2 * hurtTTL))
	if h.rng.IntN(2) == 0 {
		h.note("server between killed")
		noErr(h.t, h.Servers[to].Kill())
		h.Promoted(quorumtest.Peer(to))
		noErr(h.t, h.Servers[to].Restart(h.t.Context()))
		h.Promoted(quorumtest.Peer(to))
		to = quorumtest.Peer(to)
	}
	soon(h.t, "all know where the slot is", func() bool { return h.Owner(h.tags[i], from) == to })
	_, finish = h.Migrate(h.tags[i], to, from)
	finish()
}

// healed waits until the cluster is whole and each vote has a master of its own that votes.
func (h *hurtCluster) healed(after string) {
	h.t.Helper()
	soon(h.t, "the cluster is up", func() bool {
		return !slices.ContainsFunc(h.Direct, func(d *redis.Client) bool {
			state, err := d.ClusterInfo(context.Background()).Result()
			return err != nil || !strings.Contains(state, "cluster_state:ok")
		})
	})
	votes := func(i int) bool {
		for _, n := range []int{i, quorumtest.Peer(i)} {
			d := h.Direct[n]
			text, err := d.HGet(context.Background(), protocol.RecordKey+":{"+h.tags[i]+"}", "state").Result()
			if err != nil {
				continue
			}
			rs, err := membership.ParseRecordState(text)
			info, err2 := d.Info(context.Background(), "server", "replication").Result()
			if err == nil && err2 == nil && strings.Contains(info, "role:master") && rs.Phase == membership.Voting &&
				strings.HasPrefix(rs.Incarnation, protocol.InfoField(info, "run_id")[:16]) {
				return true
			}
		}
		return false
	}
	if !within(time.Minute, func() bool { return !h.heals || votes(0) && votes(1) && votes(2) }) {
		for n, d := range h.Direct {
			for i, tag := range h.tags {
				h.t.Logf("server %d, vote %d: %s", n, i, d.HGet(context.Background(), protocol.RecordKey+":{"+tag+"}", "state"))
			}
		}
		h.t.Errorf("after %s: the votes are not back in a minute: %+v", after, h.clients[0].Stats())
	}
}
