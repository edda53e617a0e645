// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// wantNotOpened fails unless Open fails with want and says words. The masters may be busy, but Open needs no more of them than their answers.
func wantNotOpened(t testing.TB, urls []string, want error, words []string, opts ...redlock.Option) {
	t.Helper()
	wantNotOpenedWithin(t, 30*time.Second, urls, want, words, opts...)
}

func wantNotOpenedWithin(t testing.TB, limit time.Duration, urls []string, want error, words []string, opts ...redlock.Option) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := redlock.Open(ctx, urls, opts...)
	if err == nil {
		_ = c.Close()
		t.Errorf("opened %v", urls)
		return
	}
	if !errors.Is(err, want) {
		t.Errorf("%v is not %v", err, want)
	}
	wantText(t, err, words...)
}

func TestOpen_badNodeCount_refused(t *testing.T) {
	urls := make([]string, 64)
	for i := range urls {
		urls[i] = fmt.Sprintf("redis://127.0.0.1:%d", i+1) // nobody is dialled
	}
	for n, words := range map[int][]string{
		0:  {"no masters"},
		1:  {"1 masters", "WithNodeCount(1)"},
		2:  {"2 masters", "WithNodeCount(2)"},
		4:  {"4 masters", "even", "WithNodeCount(4)"},
		64: {"64 masters", "63"},
	} {
		wantNotOpened(t, urls[:n], redlock.ErrConfig, words)
		_, err := redlock.New(t.Context(), make([]node.Node, n))
		wantIs(t, err, redlock.ErrConfig)
	}
	wantNotOpened(t, urls[:3], redlock.ErrConfig, []string{"3 masters", "WithNodeCount(5)"}, redlock.WithNodeCount(5))
	wantNotOpened(t, urls[:3], redlock.ErrConfig, []string{"-1"}, redlock.WithNodeCount(-1))
	_, err := redlock.New(t.Context(), make([]node.Node, 3))
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, "node 1 of 3 is nil")
}

// With WithNodeCount a client can have one master or an even number of masters.
func TestOpen_nodeCountSaid_works(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 4, localredis.Config{})
	for _, n := range []int{1, 2, 4} {
		c, err := redlock.Open(t.Context(), ms.urls()[:n], patient, redlock.WithNodeCount(n), redlock.WithUnsafeRecoveryOff())
		noErr(t, err)
		l := locked(t, c.Mutex("even"))
		noErr(t, l.Unlock(t.Context()))
		noErr(t, c.Close())
	}
	// Of four, two are no quorum.
	c := ms.open(redlock.WithNodeCount(4), redlock.WithUnsafeRecoveryOff())
	noErr(t, ms.servers[0].Kill())
	l := locked(t, c.Mutex("even"))
	noErr(t, l.Unlock(t.Context()))
	noErr(t, ms.servers[1].Kill())
	_, err := c.Mutex("even").TryLock(t.Context())
	wantIs(t, err, redlock.ErrUnreachable)
}

func TestOpen_badURL_namesWhich(t *testing.T) {
	wantNotOpened(t, []string{"redis://127.0.0.1:1", "nonsense", "redis://127.0.0.1:2"}, redlock.ErrConfig, []string{"master 2 of 3", "nonsense"})
	wantNotOpened(t, []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://:secret@127.0.0.1:x"}, redlock.ErrConfig, []string{"master 3 of 3"})
}

func TestOpen_masterTwice_refused(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	urls := ms.urls()
	wantNotOpened(t, []string{urls[0], urls[1], urls[0]}, redlock.ErrConfig, []string{ms.servers[0].Addr(), "twice"})

	p, err := faultproxy.Start(ms.servers[0].Addr())
	noErr(t, err)
	defer p.Close()
	for _, opts := range [][]redlock.Option{nil, {redlock.WithUnsafeRecoveryOff()}} {
		wantNotOpened(t, []string{urls[0], urls[1], "redis://" + p.Addr()}, redlock.ErrConfig,
			[]string{ms.servers[0].Addr(), p.Addr(), "same master", "run_id"}, opts...)
	}
	// Another database of the same process is the same master.
	wantNotOpened(t, []string{urls[0], urls[1], "redis://" + p.Addr() + "/1"}, redlock.ErrConfig, []string{"same master"})
	ms.wantNoKeys("*")
}

// mastersOneOfThemTwice are two masters, and a second address of the first one, which refuses connections at first.
func mastersOneOfThemTwice(t *testing.T) (*masters, *faultproxy.Proxy) {
	ms := startMasters(t, 2, localredis.Config{})
	p, err := faultproxy.Start(ms.servers[0].Addr())
	noErr(t, err)
	t.Cleanup(func() { p.Close() })
	noErr(t, p.Refuse(true))
	return ms, p
}

// A second address of a master is refused too if it can be reached only after Open.
func TestOpen_masterTwiceButDownAtFirst_neverVotesTwice(t *testing.T) {
	t.Parallel()
	ms, p := mastersOneOfThemTwice(t)
	c, err := redlock.Open(t.Context(), append(ms.urls(), "redis://"+p.Addr()), redlock.WithUnsafeRecoveryOff())
	noErr(t, err)
	defer c.Close()
	noErr(t, p.Refuse(false))
	noErr(t, ms.servers[1].Kill())
	m := c.Mutex("twice")
	soon(t, "the refusal is known", func() bool {
		_, err := m.TryLock(t.Context())
		if err == nil {
			t.Fatal("a quorum of one master")
		}
		return strings.Contains(err.Error(), "same master")
	})
}

// Nor does that server hand its vote twice, to a caller that waits: it publishes it once, and both nodes hear it.
func TestOpen_masterTwiceButDownAtFirst_handsOneVote(t *testing.T) {
	t.Parallel()
	ms, p := mastersOneOfThemTwice(t)
	open := func() *redlock.Client {
		c, err := redlock.Open(t.Context(), append(ms.urls(), "redis://"+p.Addr()), redlock.WithUnsafeRecoveryOff())
		noErr(t, err)
		t.Cleanup(func() { noErr(t, c.Close()) })
		return c
	}
	holder, waiter := open(), open()
	noErr(t, p.Refuse(false))
	noErr(t, ms.servers[1].Pause())
	for _, c := range []*redlock.Client{holder, waiter} {
		soon(t, "the refusal is known", func() bool {
			_, err := c.Mutex("other").TryLock(t.Context())
			return err != nil && strings.Contains(err.Error(), "same master")
		})
	}
	noErr(t, ms.servers[1].Resume())
	lease, err := holder.Mutex("twice").Lock(t.Context())
	noErr(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Mutex("twice").Lock(ctx)
		waited <- err
	}()
	hears := func() (n int) {
		for _, on := range ms.direct[0].PubSubChannels(ctx, "redlock:wake:*").Val() {
			n = max(n, int(ms.direct[0].PubSubNumSub(ctx, on).Val()[on]))
		}
		return n
	}
	soon(t, "it waits, and both nodes hear the server", func() bool {
		return ms.direct[0].ZCard(ctx, quorumtest.Queue("twice")).Val() == 1 && hears() == 2
	})
	noErr(t, ms.servers[1].Kill())
	_ = lease.Unlock(t.Context())
	if err := <-waited; err == nil {
		t.Fatal("a quorum of one master")
	}
}

func TestOpen_replica_refused(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	replica, err := localredis.Start(t.Context(), localredis.Config{ReplicaOf: ms.servers[0].Addr()})
	noErr(t, err)
	defer replica.Close()
	noErr(t, ms.servers[1].Kill())
	second, err := localredis.Start(t.Context(), localredis.Config{ReplicaOf: ms.servers[0].Addr()})
	noErr(t, err)
	defer second.Close()
	urls := []string{ms.servers[0].URL(), second.URL(), replica.URL()}
	wantNotOpened(t, urls, redlock.ErrConfig, []string{replica.Addr(), second.Addr(), "slave", "name its master"})
	wantNotOpened(t, urls, node.ErrReplica, nil, redlock.WithUnsafeRecoveryOff())
	ms.wantNoKeys("*", 0, 2)
}

func TestOpen_evictingPolicy_refused(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		for _, i := range []int{1, 2} {
			noErr(t, ms.direct[i].ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		}
		wantNotOpened(t, ms.urls(), node.ErrEviction, []string{ms.servers[1].Addr(), ms.servers[2].Addr(), policy, "noeviction"})
	}
	wantNotOpened(t, ms.urls(), redlock.ErrConfig, nil)
}

// A master that does not tell which process it is could restart without its locks, and nobody would
// notice. One that does not tell its policy could evict them.
func TestOpen_fieldOfINFOHidden_refused(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	for _, field := range []string{"run_id", "role", "maxmemory_policy", "evicted_keys"} {
		var urls []string
		for _, s := range ms.servers {
			urls = append(urls, "redis://"+quorumtest.Hiding(t, s.Addr(), field))
		}
		words := []string{field, strings.TrimPrefix(urls[0], "redis://"), "proxy"}
		for _, want := range []error{redlock.ErrConfig, node.ErrHidden} {
			wantNotOpened(t, urls[:1], want, words, redlock.WithNodeCount(1))
			wantNotOpened(t, urls, want, words)
			wantNotOpened(t, urls, want, words, redlock.WithUnsafeRecoveryOff())
			err := admin.Init(t.Context(), list(urls), nil, admin.NothingWasEverLocked)
			wantIs(t, err, want)
			wantText(t, err, field)
		}
	}
	ms.wantNoKeys("*")
}

func TestOpen_unreachable_majorityRefusedMinorityTakenInLater(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, time.Second, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		for _, i := range []int{0, 1} {
			noErr(t, ms.servers[i].Kill())
		}
		c := ms.open(redlock.WithUnsafeRecoveryOff())
		l := locked(t, c.Mutex("minority"))
		noErr(t, l.Unlock(t.Context()))

		noErr(t, ms.servers[2].Kill())
		start := time.Now()
		wantNotOpenedWithin(t, 2*time.Second, ms.urls(), redlock.ErrUnreachable, []string{"2 of 5", "quorum is 3", ms.servers[0].Addr(), ms.servers[1].Addr(), ms.servers[2].Addr()})
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("Open took %v to say so", d)
		}
		for _, i := range []int{0, 1, 2} {
			noErr(t, ms.servers[i].Restart(t.Context()))
		}
		noErr(t, ms.servers[3].Kill())
		noErr(t, ms.servers[4].Kill())
		l = locked(t, c.Mutex("minority"))
		noErr(t, l.Unlock(t.Context()))
	})
}

// A frozen master accepts connections and says nothing.
func TestOpen_frozenMaster_doesNotHoldItUpForLong(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, time.Second, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		noErr(t, ms.servers[0].Pause())
		start := time.Now()
		c := ms.open(redlock.WithUnsafeRecoveryOff())
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("Open took %v", d)
		}
		noErr(t, locked(t, c.Mutex("frozen")).Unlock(t.Context()))
	})
}

func TestMutex_badName_refusedByEveryCall(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	for name, says := range map[string]string{
		"":                        "empty",
		strings.Repeat("x", 513):  "513 bytes",
		"nul\x00inside":           "NUL",
		"bad\xff\xfeutf8":         "UTF-8",
		"redlock:node":            "redlock:",
		"redlock:":                "redlock:",
		strings.Repeat("é", 257):  "514 bytes",
		"\x00":                    "NUL",
		strings.Repeat("\n", 600): "600 bytes",
	} {
		m := c.Mutex(name)
		for _, err := range []error{
			second(m.Lock(t.Context())), second(m.TryLock(t.Context())), second(inside.LockFor(t.Context(), m, time.Second)),
			m.Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil }), second(c.RWMutex(name).TryRLock(t.Context())),
		} {
			if !errors.Is(err, redlock.ErrConfig) || !strings.Contains(err.Error(), says) {
				t.Errorf("%.20q: %v, want it to say %q", name, err, says)
			}
		}
	}
	for _, name := range []string{"x", strings.Repeat("x", 512), "a b", "{tag}", "}{", "{", "ключ", "%s%d", "a\nb", "*", "redlock", "state"} {
		l := locked(t, c.Mutex(name))
		noErr(t, l.Unlock(t.Context()))
	}
}

func TestOptions_badRelations_bothValuesNamed(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin(redlock.WithMaxTTL(20 * time.Second))
	for _, tc := range []struct {
		opts []redlock.LockOption
		says []string
	}{
		{[]redlock.LockOption{redlock.WithTTL(0)}, []string{"TTL 0s", "10ms"}},
		{[]redlock.LockOption{redlock.WithTTL(-time.Second)}, []string{"TTL -1s", "10ms"}},
		{[]redlock.LockOption{redlock.WithTTL(9999 * time.Microsecond)}, []string{"TTL 9.999ms", "10ms"}},
		{[]redlock.LockOption{redlock.WithTTL(30)}, []string{"TTL 30ns", "10ms"}},
		{[]redlock.LockOption{redlock.WithTTL(21 * time.Second)}, []string{"TTL 21s", "20s", "WithMaxTTL"}},
		{[]redlock.LockOption{redlock.WithTTL(math.MaxInt64)}, []string{"TTL 2562047h47m16.854s", "8760h"}},
		{[]redlock.LockOption{redlock.WithTTL(time.Second), redlock.WithRenewal(time.Second)}, []string{"renewal every 1s", "TTL 1s"}},
		{[]redlock.LockOption{redlock.WithTTL(time.Second), redlock.WithRenewal(2 * time.Second)}, []string{"renewal every 2s", "TTL 1s"}},
		{[]redlock.LockOption{redlock.WithTTL(time.Second), redlock.WithRenewal(980 * time.Millisecond)}, []string{"renewal every 980ms", "TTL 1s", "drift 12ms"}},
		{[]redlock.LockOption{redlock.WithRenewal(0)}, []string{"renewal every 0s", "TTL 10s"}},
		{[]redlock.LockOption{redlock.WithRenewal(-1)}, []string{"renewal every -1ns", "TTL 10s"}},
		{[]redlock.LockOption{redlock.WithRenewal(5)}, []string{"renewal every 5ns", "1ms", "TTL 10s"}},
		{[]redlock.LockOption{redlock.WithRenewal(999 * time.Microsecond)}, []string{"renewal every 999µs", "1ms"}},
		{[]redlock.LockOption{redlock.WithMinValidity(-1)}, []string{"minimum validity -1ns", "TTL 10s"}},
		{[]redlock.LockOption{redlock.WithMinValidity(9900 * time.Millisecond)}, []string{"minimum validity 9.9s", "TTL 10s", "drift 102ms"}},
		{[]redlock.LockOption{redlock.WithOutageTimeout(-1)}, []string{"outage timeout -1ns"}},
		{[]redlock.LockOption{redlock.WithOutageTimeout(math.MaxInt64)}, []string{"outage timeout 2562047h47m16.854775807s", "8760h"}},
		{[]redlock.LockOption{redlock.WithMaxHold(-1)}, []string{"maximum hold -1ns"}},
		{[]redlock.LockOption{redlock.WithMaxHold(30)}, []string{"maximum hold 30ns", "1ms"}},
		{[]redlock.LockOption{redlock.WithMaxWait(-1)}, []string{"maximum wait -1ns"}},
		{[]redlock.LockOption{nil}, []string{"nil option"}},
	} {
		m := c.Mutex("options", tc.opts...)
		_, err := m.TryLock(t.Context())
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, tc.says...)
		// The same as defaults of a whole client.
		opts := []redlock.Option{redlock.WithMaxTTL(20 * time.Second)}
		for _, o := range tc.opts {
			opts = append(opts, o)
		}
		wantNotOpened(t, ms.urls(), redlock.ErrConfig, tc.says, opts...)
	}
	for _, tc := range []struct {
		opts []redlock.Option
		says []string
	}{
		{[]redlock.Option{redlock.WithDrift(clock.Drift{Factor: -0.01})}, []string{"-0.01"}},
		{[]redlock.Option{redlock.WithDrift(clock.Drift{Factor: math.NaN()})}, []string{"NaN"}},
		{[]redlock.Option{redlock.WithDrift(clock.Drift{Factor: 1})}, []string{"1"}},
		{[]redlock.Option{redlock.WithDrift(clock.Drift{Constant: -1})}, []string{"-1ns"}},
		{[]redlock.Option{redlock.WithDrift(clock.Drift{Factor: 0.99, Constant: time.Second})}, []string{"drift 10.9s", "TTL 10s", "WithTTL", "WithDrift"}},
		{[]redlock.Option{redlock.WithMaxTTL(30)}, []string{"maximum TTL 30ns", "10ms"}},
		{[]redlock.Option{redlock.WithNodeTimeout(0)}, []string{"node timeout 0s"}},
		{[]redlock.Option{redlock.WithNodeTimeout(-1)}, []string{"node timeout -1ns"}},
		{[]redlock.Option{redlock.WithNodeTimeout(math.MaxInt64)}, []string{"node timeout 2562047h47m16.854775807s"}},
		{[]redlock.Option{redlock.WithMaxTTL(math.MaxInt64)}, []string{"maximum TTL 2562047h47m16.854s"}},
		{[]redlock.Option{redlock.WithMaxTTL(0)}, []string{"maximum TTL 0s"}},
		{[]redlock.Option{redlock.WithMaxTTL(9 * time.Second), redlock.WithTTL(10 * time.Second)}, []string{"TTL 10s", "maximum TTL 9s"}},
		{[]redlock.Option{redlock.WithTTL(10 * time.Second), redlock.WithMaxTTL(9 * time.Second)}, []string{"TTL 10s", "maximum TTL 9s"}},
		{[]redlock.Option{redlock.WithClock(nil)}, []string{"clock"}},
		{[]redlock.Option{nil}, []string{"nil option"}},
	} {
		wantNotOpened(t, ms.urls(), redlock.ErrConfig, tc.says, tc.opts...)
	}
	ms.wantNoKeys("options")
}

func TestLock_keyOfAnotherType_refusedAtOnceAndKept(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	m := ms.begin().Mutex("taken")
	ms.each(ms.all(), func(d *redis.Client) error { return d.Set(context.Background(), "taken", "a string", 0).Err() })
	for _, err := range []error{second(m.TryLock(t.Context())), second(m.Lock(t.Context()))} {
		wantIs(t, err, redlock.ErrRefused)
		wantText(t, err, "WRONGTYPE", `the lock's key "taken" or its queue "redlock:queue:{taken}"`, "give the lock another name")
		// The round ends when a quorum has refused; the third master may not have answered by then.
		said := 0
		for _, s := range ms.servers {
			if strings.Contains(err.Error(), s.Addr()+": WRONGTYPE ") {
				said++
			}
		}
		if said < 2 {
			t.Errorf("%q says of %d masters why they refuse, want 2 or 3", err, said)
		}
	}
	ms.each(ms.all(), func(d *redis.Client) error {
		if v := d.Get(context.Background(), "taken").Val(); v != "a string" {
			t.Errorf("the key is %q now", v)
		}
		return nil
	})
	// On a minority it costs a vote, no more, and the release has nothing to do there.
	ms.each([]int{0, 1}, drop("taken"))
	noErr(t, locked(t, m).Unlock(t.Context()))
	ms.wantNoKeys("redlock:queue:*")
}

func TestLock_keyWithoutTTL_heldForEverAndSaid(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	m := ms.begin().Mutex("immortal")
	ms.each(ms.all(), func(d *redis.Client) error { return d.HSet(context.Background(), "immortal", "someone", 1).Err() })
	_, err := m.TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	wantText(t, err, "no TTL")
	var round *redlock.RoundError
	if !errors.As(err, &round) || round.RetryAfter != 0 || round.Held < 2 { // two of three decide it
		t.Errorf("%+v", round)
	}
	soon(t, "it is told that it is held", func() bool { // or, with too little time for an answer, that nobody answered
		_, err = inside.LockFor(t.Context(), m, time.Second)
		return !errors.Is(err, redlock.ErrUnreachable)
	})
	wantIs(t, err, redlock.ErrHeld)
	got := make(chan error, 1)
	go func() {
		l, err := m.Lock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		got <- err
	}()
	soon(t, "it waits", func() bool { return len(ms.keys("redlock:queue:*")) == 3 })
	ms.each(ms.all(), drop("immortal"))
	noErr(t, <-got) // nobody published it: a timer found out
}
