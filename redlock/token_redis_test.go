// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// tokens judges the grants of one lock.
type tokens struct {
	holder atomic.Pointer[redlock.Lease]

	mu    sync.Mutex
	seen  map[int64]bool
	most  int64 // of the grants that were returned
	wrong []string
}

// lock takes m, gives it back, and notes what is wrong with the grant: a token that
// was there before or is no larger than that of a lease granted before Lock was
// called, or a holder that believes to have the lock still.
func (ts *tokens) lock(ctx context.Context, m redlock.Locker) error {
	ts.mu.Lock()
	before := ts.most
	ts.mu.Unlock()
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	other := ts.holder.Swap(l)
	ts.mu.Lock()
	switch t := l.Token(); {
	case ts.seen[t]:
		ts.wrong = append(ts.wrong, fmt.Sprintf("%q: token %d twice", m.Name(), t))
	case t <= before:
		ts.wrong = append(ts.wrong, fmt.Sprintf("%q: token %d after %d", m.Name(), t, before))
	case other != nil && other.Err() == nil:
		ts.wrong = append(ts.wrong, fmt.Sprintf("%q: %s and %s hold it", m.Name(), other.Holder(), l.Holder()))
	}
	ts.seen[l.Token()] = true
	ts.most = max(ts.most, l.Token())
	ts.mu.Unlock()
	time.Sleep(time.Millisecond) // a second holder would come in now
	ts.holder.CompareAndSwap(l, nil)
	_ = l.Unlock(ctx)
	return nil
}

// Masters are killed, emptied, frozen and replaced by a copy of another, at most two at a time.
// Messages are delayed. No token is granted twice or out of order, and there are never two holders.
func TestTokens_mastersAndMessagesHurt_uniqueAndInOrder(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	replay.Each(t, func(t *testing.T, seed uint64) {
		stall.Try(t, 200*time.Millisecond, func(t testing.TB) { tokensWhileHurt(t, seed) })
	})
}

func tokensWhileHurt(t testing.TB, seed uint64) {
	rng := replay.RNG(seed)
	grants, rest := int64(300), 10*time.Millisecond
	if needs.InSoak(t) {
		// With a rest now and then: masters that are always hurt grant little.
		grants, rest = 200_000, time.Second
	}
	ms := startProxied(t, 5, localredis.Config{})
	opts := []redlock.Option{redlock.WithTTL(400 * time.Millisecond), redlock.WithMaxTTL(400 * time.Millisecond)}
	noErr(t, ms.begin(opts...).Close())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	locks := make([]*tokens, 32)
	for i := range locks {
		locks[i] = &tokens{seen: map[int64]bool{}}
	}
	var granted, refused atomic.Int64
	// What was done to a master is noticed by those who want its vote: there must be some
	// until the last has recovered.
	var hurting atomic.Bool
	hurting.Store(true)
	var workers, nemeses sync.WaitGroup
	var clients []*redlock.Client
	for range 4 {
		c := ms.open(append(opts, redlock.WithNodeTimeout(100*time.Millisecond))...)
		clients = append(clients, c)
		for w := range 8 {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
			workers.Go(func() {
				for hurting.Load() {
					i := rng.IntN(1 + rng.IntN(len(locks))) // some are wanted more
					var how []redlock.LockOption
					if w == 0 {
						how = append(how, redlock.WithoutFairness())
					}
					wait, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(500))*time.Millisecond)
					if err := locks[i].lock(wait, c.Mutex(fmt.Sprintf("tokens-%d", i), how...)); err == nil {
						granted.Add(1)
					} else {
						refused.Add(1)
					}
					cancel()
				}
			})
		}
	}
	struck := map[string]int{}
	hurt, delays := newHurt(ms, rng), rand.New(rand.NewPCG(rng.Uint64(), 0))
	nemeses.Go(func() {
		defer hurting.Store(false)
		for granted.Load() < grants && !t.Failed() {
			two := rng.Perm(5)[:1+rng.IntN(2)]
			for _, i := range two {
				struck[hurt.strike(i)]++
			}
			for _, i := range two {
				soon(t, "it votes again", func() bool { return ms.phase(i) == membership.Voting })
			}
			time.Sleep(time.Duration(rng.Int64N(int64(rest))))
		}
	})
	late := make(chan int)
	go func() { late <- hurt.delays(ctx, delays) }()
	workers.Wait()
	nemeses.Wait()
	stop()
	delayed := <-late
	var second uint64
	for _, c := range clients {
		second += c.Stats().SecondRounds
	}
	t.Logf("%d grants, %d gave up, %d second round trips; struck %v, %d messages late", granted.Load(), refused.Load(), second, struck, delayed)
	for _, ts := range locks {
		for _, w := range ts.wrong {
			t.Error(w)
		}
	}
	if len(struck) == 0 || delayed == 0 {
		t.Error("nothing was hurt")
	}
}

// hurt does things to masters of which each keeps the condition of the tokens: those
// that lost their counters are a minority.
type hurt struct {
	ms  *masters
	how []string
}

func newHurt(ms *masters, rng *rand.Rand) *hurt {
	h := &hurt{ms: ms}
	for _, i := range rng.Perm(4) {
		h.how = append(h.how, []string{"killed", "flushed", "replaced", "frozen"}[i])
	}
	return h
}

// strike does the next thing to master i, and says what it was.
func (h *hurt) strike(i int) string {
	h.ms.t.Helper()
	what := h.how[0]
	h.how = append(h.how[1:], what)
	d, ctx := h.ms.direct[i], context.Background()
	switch what {
	case "killed":
		h.ms.restart(i)
	case "flushed":
		noErr(h.ms.t, flush(d))
	case "frozen":
		noErr(h.ms.t, h.ms.servers[i].Pause())
		time.Sleep(300 * time.Millisecond) // most of a TTL
		noErr(h.ms.t, h.ms.servers[i].Resume())
		return what // it forgot nothing
	case "replaced": // by a copy of the next master, as when that one's replica is promoted
		host, port, _ := strings.Cut(h.ms.servers[(i+1)%len(h.ms.servers)].Addr(), ":")
		noErr(h.ms.t, d.Do(ctx, "REPLICAOF", host, port).Err())
		soon(h.ms.t, "synchronised", func() bool {
			return strings.Contains(d.Info(ctx, "replication").Val(), "master_link_status:up")
		})
		noErr(h.ms.t, d.Do(ctx, "REPLICAOF", "no", "one").Err())
	}
	soon(h.ms.t, "it is seen to recover", func() bool {
		text, err := d.HGet(ctx, protocol.RecordKey, "state").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false
		}
		rs, err := membership.ParseRecordState(text)
		return err == nil && rs.Incarnation == h.ms.incarnation(i)
	})
	return what
}

// delays holds up one call of a script at a time until ctx ends, and returns how many.
func (h *hurt) delays(ctx context.Context, rng *rand.Rand) (n int) {
	kinds := []faultproxy.Match{acquires(h.ms.t), releases(h.ms.t), runs(h.ms.t, "confirm")}
	for ctx.Err() == nil {
		held := h.ms.proxies[rng.IntN(len(h.ms.proxies))].Hold(kinds[rng.IntN(len(kinds))])
		wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		if held.Wait(wait) == nil {
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			if _, err := held.Deliver(context.Background()); err == nil { // else its master was killed
				n++
			}
		}
		cancel()
		held.Drop()
	}
	return n
}
