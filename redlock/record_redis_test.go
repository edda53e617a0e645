// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// spoil does f to the record of the first master.
func spoil(f func(ctx context.Context, d *redis.Client)) func(ms *masters) {
	return func(ms *masters) { f(context.Background(), ms.direct[0]) }
}

var badRecords = map[string]struct {
	spoil func(ms *masters)
	want  error // nil: an EpochError
	says  []string
}{
	"state that is none": {spoil(func(ctx context.Context, d *redis.Client) {
		d.HSet(ctx, protocol.RecordKey, "state", "something else")
	}), node.ErrRecord, []string{"something else", "delete it"}},
	"newer protocol": {spoil(func(ctx context.Context, d *redis.Client) {
		state := d.HGet(ctx, protocol.RecordKey, "state").Val()
		d.HSet(ctx, protocol.RecordKey, "state", "9"+state[1:])
	}), node.ErrProtocol, []string{"9", "one version"}},
	"foreign string": {spoil(func(ctx context.Context, d *redis.Client) {
		d.Del(ctx, protocol.RecordKey)
		d.Set(ctx, protocol.RecordKey, "mine", 0)
	}), node.ErrRecord, []string{"delete it"}},
	"other epoch": {spoil(func(ctx context.Context, d *redis.Client) {
		state := strings.Split(d.HGet(ctx, protocol.RecordKey, "state").Val(), "|")
		state[1] = "1.0123456789abcdef"
		d.HSet(ctx, protocol.RecordKey, "state", strings.Join(state, "|"), "epoch", "3 masters a b c, maximum TTL 1h0m0s, drift 0.01 + 2ms")
	}), nil, []string{"3 masters a b c, maximum TTL 1h0m0s", "3 masters 127.0.0.1:", "maximum TTL 30s", "Reconfigure"}},
}

// content is what stands at key. It is no DUMP: two DUMPs of one large hash may have its
// fields in another order, since Redis 7.4.
func content(t *testing.T, d *redis.Client, key string) string {
	t.Helper()
	if d.Type(t.Context(), key).Val() != "hash" {
		return d.Dump(t.Context(), key).Val()
	}
	fields, err := d.HGetAll(t.Context(), key).Result()
	noErr(t, err)
	return fmt.Sprint(fields) // a map is printed in the order of its keys
}

// As long as no quorum votes for this list, nobody knows whether the list is wrong or the record. With a
// quorum the client opens: TestOpen_misconfiguredMinority_opensAndSaysSo.
func TestOpen_badRecord_refusedWithMasterAndRemedy(t *testing.T) {
	for name, tc := range badRecords {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 3, localredis.Config{})
			noErr(t, ms.begin().Close())
			tc.spoil(ms)
			noErr(t, ms.servers[1].Pause())
			before := content(t, ms.direct[0], protocol.RecordKey)
			says := append(slices.Clone(tc.says), ms.servers[0].Addr())
			if tc.want == node.ErrRecord { // who is told to delete a record sees both lists first
				says = append(says, "3 masters 127.0.0.1:", "maximum TTL 30s, drift 0.01 + 2ms; if nothing else uses")
			}
			if tc.want == nil {
				wantNotOpened(t, ms.urls(), redlock.ErrRefused, says)
			} else {
				wantNotOpened(t, ms.urls(), tc.want, says)
				wantNotOpened(t, ms.urls(), redlock.ErrConfig, nil)
			}
			if after := content(t, ms.direct[0], protocol.RecordKey); after != before {
				t.Error("the record was changed")
			}
			noErr(t, ms.servers[1].Resume())
			// The remedy works.
			if tc.want == node.ErrRecord {
				ms.each([]int{0}, drop(protocol.RecordKey))
				c := ms.open()
				noErr(t, locked(t, c.Mutex("after")).Unlock(t.Context()))
			}
		})
	}
}

// The record of a master becomes unreadable while a client runs. The client gets no vote from that
// master, and its error says why. A lock that is held stays held.
func TestRecord_badWhileRunning_noVoteAndTheReason(t *testing.T) {
	for name, tc := range badRecords {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 3, localredis.Config{})
			c := ms.begin()
			held := locked(t, c.Mutex("held"))
			settled(t, held, 3)
			tc.spoil(ms)
			before := content(t, ms.direct[0], protocol.RecordKey)
			noErr(t, held.Extend(t.Context()))
			l := locked(t, c.Mutex("other")) // two of three vote
			if n := len(ms.keys("other", 0)); n != 0 {
				t.Errorf("the master with the bad record has voted")
			}
			noErr(t, l.Unlock(t.Context()))
			noErr(t, ms.servers[1].Kill())
			soon(t, "the reason is known", func() bool {
				_, err := c.Mutex("other").TryLock(t.Context())
				if err == nil {
					t.Fatal("granted")
				}
				for _, w := range append(tc.says, ms.servers[0].Addr()) {
					if !strings.Contains(err.Error(), w) {
						return false
					}
				}
				if epoch := (*redlock.EpochError)(nil); tc.want == nil {
					wantNotConfig(t, err)
					return errors.As(err, &epoch)
				}
				return errors.Is(err, tc.want)
			})
			if after := content(t, ms.direct[0], protocol.RecordKey); after != before {
				t.Error("the record was changed")
			}
		})
	}
}

func TestRecord_counterBeyondLimit_refusedWithTheRemedy(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	for _, bad := range []string{"9007199254740991", "9007199254740990", "9223372036854775807", "1e300", "-5", "nonsense", "nan", "-nan", "inf", "1.5"} {
		ms.each(ms.all(), func(d *redis.Client) error {
			for i := range protocol.Counters {
				d.HSet(context.Background(), protocol.RecordKey, protocol.CounterField(i), bad)
			}
			return nil
		})
		_, err := c.Mutex("counter").TryLock(t.Context())
		wantIs(t, err, redlock.ErrRefused, node.ErrRecord)
		wantText(t, err, bad, "2^53", "delete")
		named := 0 // two that refuse end the round, and the third may not have answered
		for _, s := range ms.servers {
			named += strings.Count(err.Error(), s.Addr()+": ")
		}
		if named < 2 {
			t.Errorf("%v names %d masters, want those that refuse", err, named)
		}
		ms.wantNoKeys("counter")
	}
	// The largest one that leaves room still votes, exactly.
	ms.each(ms.all(), func(d *redis.Client) error {
		for i := range protocol.Counters {
			d.HSet(context.Background(), protocol.RecordKey, protocol.CounterField(i), "9007199254740988")
		}
		return nil
	})
	l := locked(t, c.Mutex("counter"))
	if l.Token() != 9007199254740989 {
		t.Errorf("token %d", l.Token())
	}
	noErr(t, l.Unlock(t.Context()))
}

func TestMaxTTL_otherClients_refusedWithBoth(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	noErr(t, ms.begin(redlock.WithMaxTTL(20*time.Second)).Close())
	wantNotOpened(t, ms.urls(), redlock.ErrRefused, []string{"maximum TTL 20s", "maximum TTL 40s"}, redlock.WithMaxTTL(40*time.Second))
	wantNotOpened(t, append(ms.urls(), "redis://127.0.0.1:1", "redis://127.0.0.1:2"), redlock.ErrRefused, []string{"3 masters", "5 masters"}, redlock.WithMaxTTL(20*time.Second))
	var epoch *redlock.EpochError
	_, err := redlock.Open(t.Context(), ms.urls())
	wantNotConfig(t, err)
	if !errors.As(err, &epoch) || !strings.Contains(epoch.Theirs, "20s") || !strings.Contains(epoch.Ours, "30s") {
		t.Errorf("%v", err)
	}
	// The order of the list does not matter.
	urls := ms.urls()
	urls[0], urls[2] = urls[2], urls[0]
	c, err := redlock.Open(t.Context(), urls, patient, redlock.WithMaxTTL(20*time.Second))
	noErr(t, err)
	noErr(t, c.Close())
}

func TestScriptFlush_midRun_costsNothing(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	c := ms.begin(redlock.WithTTL(30 * time.Second)) // a round ends with a third of it, and an Unlock without an answer is an error
	held := locked(t, c.Mutex("held"))
	waiting := make(chan error, 1)
	go func() {
		l, err := c.Mutex("held").Lock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		waiting <- err
	}()
	stop := make(chan struct{})
	count, wait := pairs(t, c, 8, stop)
	for n := 0; n < 30 || count.Load() < 30; n++ {
		if n == 3000 {
			t.Fatalf("only %d pairs while the scripts were flushed %d times", count.Load(), n)
		}
		ms.each(ms.all(), func(d *redis.Client) error { return d.ScriptFlush(context.Background()).Err() })
		noErr(t, held.Extend(t.Context()))
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	wait()
	noErr(t, held.Unlock(t.Context()))
	noErr(t, <-waiting)
	ms.givenBack("pair*", "held")
}

// limited gives all masters a user that lacks some rights, and returns URLs that
// log in as it.
func limited(ms *masters, lacks ...any) []string {
	var urls []string
	for i, d := range ms.direct {
		args := append([]any{"acl", "setuser", "limited", "reset", "on", ">pw", "~*", "&*", "+@all"}, lacks...)
		noErr(ms.t, d.Do(context.Background(), args...).Err())
		urls = append(urls, "redis://limited:pw@"+ms.servers[i].Addr())
	}
	return urls
}

func TestACL_missingRight_commandNamed(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	noErr(t, ms.begin().Close())
	// A script that is refused half-way could leave a key without TTL.
	for _, cmd := range []string{"info", "hgetall", "evalsha", "hmget", "pttl", "hset", "pexpire", "hexists", "exists", "hdel", "publish", "zadd"} {
		urls := limited(ms, "-"+cmd)
		wantNotOpened(t, urls, redlock.ErrRefused, []string{cmd, "grant", ms.servers[0].Addr()})
		ms.wantNoKeys("acl")
	}
	// Keys that the user may not touch are named as a lack of rights as well.
	c, err := redlock.Open(t.Context(), limited(ms, "resetkeys", "~redlock:*"), patient)
	noErr(t, err)
	defer c.Close()
	_, err = c.Mutex("acl").TryLock(t.Context())
	wantIs(t, err, redlock.ErrRefused)
	wantText(t, err, "NOPERM")
}

// rightsOf is what the user of a namespace needs, after a user had every right. docs/operations.md has
// the same list.
func rightsOf(ns protocol.Namespace) []any {
	words := []any{"-@all", "resetkeys", "resetchannels"}
	for _, w := range ns.ACL() {
		words = append(words, w)
	}
	return words
}

func TestACL_listedRights_areEnough(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	few := append(rightsOf(""), "resetkeys", "~redlock:node", "~redlock:alive:*", "~redlock:queue:*", "~redlock:rest:*", "~redlock:leader:*", "~redlock:owner:*", "~redlock:barred:*", "~redlock:check", "~{redlock:check}*", "~orders*", "~{orders*")
	initAt(t, limited(ms, few...))
	c, err := redlock.Open(t.Context(), limited(ms, few...), patient, redlock.WithTTL(4*time.Second))
	noErr(t, err)
	defer c.Close()
	for _, m := range []redlock.Locker{c.Mutex("orders"), c.RWMutex("orders-rw").Locker(), c.RWMutex("orders-rw").RLocker()} {
		l := locked(t, m)
		settled(t, l, 3)
		in, err := c.Inspect(t.Context(), m.Name())
		noErr(t, err)
		if len(in.Holders) != 1 || in.Holders[0].ID != l.Holder() {
			t.Errorf("%v", in)
		}
		inside.Announce(t.Context(), l, time.Now(), "the rights are enough")
		soon(t, "announced", func() bool { return len(ms.keys("redlock:leader:*")) == 3 })
		inside.Retract(l)
		ms.each([]int{0}, drop(m.Name()))
		noErr(t, l.Extend(t.Context()))
		if got, err := listed(t, t.Context(), c, "orders"); err != nil || !slices.Equal(got, []string{m.Name()}) {
			t.Errorf("%v, %v", got, err)
		}
		soon(t, "topped up", func() bool { return len(ms.keys(m.Name())) == 3 })
		noErr(t, l.Unlock(t.Context()))
	}
	stuck := locked(t, c.Mutex("orders"))
	settled(t, stuck, 3)
	noErr(t, c.ForceUnlock(t.Context(), "orders", stuck.Holder()))
	held := locked(t, c.Mutex("orders"))
	waiter, err := redlock.Open(t.Context(), limited(ms, few...), patient, redlock.WithTTL(4*time.Second))
	noErr(t, err)
	defer waiter.Close()
	got := make(chan error, 1)
	go func() {
		l, err := waiter.Mutex("orders").Lock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		got <- err
	}()
	soon(t, "it is queued", func() bool { return len(ms.keys("redlock:queue:*")) == 3 })
	noErr(t, held.Unlock(t.Context()))
	noErr(t, <-got)
	for i, d := range ms.direct {
		log, err := d.Do(t.Context(), "acl", "log").Slice()
		noErr(t, err)
		for _, entry := range log {
			if text := fmt.Sprint(entry); strings.Contains(text, "limited") {
				t.Errorf("master %d refused something: %s", i, text)
			}
		}
	}
}
