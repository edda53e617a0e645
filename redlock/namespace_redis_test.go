// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// userOf gives all masters a user with the rights of the namespace and no others, and returns URLs that log in as it.
func userOf(ms *masters, ns string) (urls []string) {
	for i, d := range ms.direct {
		words := append([]any{"acl", "setuser", ns, "reset", "on", ">pw"}, rightsOf(protocol.Namespace(ns))...)
		noErr(ms.t, d.Do(context.Background(), words...).Err())
		urls = append(urls, "redis://"+ns+":pw@"+ms.servers[i].Addr())
	}
	return urls
}

// Two teams on the same masters, each with a user that the ACL limits to its namespace.
func TestNamespace_usersOfTwo_shareNothing(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	a, b := userOf(ms, "team-a"), userOf(ms, "team-b")
	in := func(ns string) []redlock.Option {
		return []redlock.Option{patient, redlock.WithNamespace(ns), redlock.WithTTL(4 * time.Second)}
	}
	open := func(urls []string, ns string) *redlock.Client {
		c, err := redlock.Open(t.Context(), urls, in(ns)...)
		noErr(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	initAt(t, a, in("team-a")...)
	wantNotOpened(t, b, redlock.ErrNeedsInit, nil, in("team-b")...) // each has a record of its own
	initAt(t, b, in("team-b")...)
	one, two, other := open(a, "team-a"), open(a, "team-a"), open(b, "team-b")
	plain := ms.begin()

	// A lock of one namespace is not that of another, nor that of no namespace.
	held := locked(t, one.Mutex("orders"))
	if held.Name() != "orders" {
		t.Errorf("the lease is of %q", held.Name())
	}
	_, err := two.Mutex("orders").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	for _, c := range []*redlock.Client{other, plain} {
		noErr(t, locked(t, c.Mutex("orders")).Unlock(t.Context()))
	}

	// A lock is waited for, handed over, extended, topped up and released.
	took := make(chan *redlock.Lease, 1)
	go func() {
		l, err := two.Mutex("orders").Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		took <- l
	}()
	soon(t, "it is queued", func() bool { return len(ms.keys("redlock:ns:team-a:redlock:queue:{orders}")) == 3 })
	noErr(t, held.Unlock(t.Context()))
	next := <-took
	if next == nil {
		return
	}
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	settled(t, next, 3)
	noErr(t, next.Extend(t.Context()))
	noErr(t, next.Unlock(t.Context()))
	for _, m := range []redlock.Locker{one.Mutex("a-{tag}"), one.RWMutex("rw").Locker(), one.RWMutex("rw").RLocker()} {
		l := locked(t, m)
		settled(t, l, 3)
		in, err := one.Inspect(t.Context(), m.Name())
		noErr(t, err)
		if len(in.Holders) != 1 || in.Holders[0].ID != l.Holder() {
			t.Errorf("%v", in)
		}
		inside.Announce(t.Context(), l, time.Now(), "a's")
		soon(t, "announced", func() bool { return len(ms.keys("redlock:ns:team-a:redlock:leader:*")) == 3 })
		inside.Retract(l)
		ms.each([]int{0}, drop("redlock:ns:team-a:"+m.Name()))
		noErr(t, l.Extend(t.Context()))
		soon(t, "topped up", func() bool { return len(ms.keys("redlock:ns:team-a:"+m.Name())) == 3 })
		noErr(t, l.Unlock(t.Context()))
	}
	stuck := locked(t, one.Mutex("stuck"))
	settled(t, stuck, 3)
	noErr(t, two.ForceUnlock(t.Context(), "stuck", stuck.Holder()))
	soon(t, "barred on all masters", func() bool { return len(ms.keys("redlock:ns:team-a:redlock:barred:{stuck}:*")) == 3 })
	for i, d := range ms.direct {
		log, err := d.Do(t.Context(), "acl", "log").Slice()
		noErr(t, err)
		for _, entry := range log {
			if text := fmt.Sprint(entry); strings.Contains(text, "team-") {
				t.Errorf("master %d refused something: %s", i, text)
			}
		}
	}

	// The user of one cannot reach what the other has.
	wantNotOpened(t, a, redlock.ErrRefused, []string{"NOPERM", "grant"}, in("team-b")...)
	wantNotOpened(t, a, redlock.ErrRefused, nil)
	_ = locked(t, other.RWMutex("rw").RLocker()) // so that it has keys of every kind
	intrude(t, ms, a[0], "team-a")
}

// intrude tries commands on every key that is there and on channels, as the user of a namespace.
func intrude(t *testing.T, ms *masters, url, ns string) {
	t.Helper()
	o, err := redis.ParseURL(url)
	noErr(t, err)
	c := redis.NewClient(o)
	defer c.Close()
	refused := func(words ...any) {
		t.Helper()
		if err := c.Do(t.Context(), words...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: %v, want NOPERM", words, err)
		}
	}
	others := 0
	for _, key := range ms.direct[0].Keys(t.Context(), "*").Val() {
		if strings.HasPrefix(strings.TrimPrefix(key, "{"), "redlock:ns:"+ns+":") {
			noErr(t, c.Do(t.Context(), "exists", key).Err())
			continue
		}
		others++
		for _, words := range [][]any{{"exists", key}, {"get", key}, {"hset", key, "f", "v"}, {"hgetall", key}, {"pexpire", key, 1}, {"del", key},
			{"eval", "return redis.call('del', KEYS[1])", 1, key}} {
			refused(words...)
		}
	}
	if others < 4 {
		t.Errorf("only %d keys of others", others)
	}
	for _, channel := range []string{"redlock:wake:x", "redlock:ns:team-b:redlock:wake:x", "redlock:ns:team-aa:redlock:wake:x",
		"redisson_lock__channel:{orders}", "redisson_lock__channel:{redlock:ns:team-b:orders}", "redisson_rwlock:redlock:ns:team-b:a{b}"} {
		refused("publish", channel, "x")
		refused("subscribe", channel)
	}
}

func TestNamespace_badName_refusedWithTheRemedy(t *testing.T) {
	urls := []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"}
	for ns, words := range map[string][]string{
		"":                        {"empty", "leave WithNamespace out"},
		strings.Repeat("x", 65):   {"65 bytes", "64"},
		"a:b":                     {`"a:b"`, "':'", "letters"},
		"{a}":                     {"'{'"},
		"a*":                      {"'*'"},
		"a?":                      {"'?'"},
		"[a]":                     {"'['"},
		`a\`:                      {`'\\'`},
		"a b":                     {"' '"},
		"Zürich":                  {"'ü'"},
		"a\x00":                   {`'\x00'`},
		string([]byte{'a', 0xff}): {"letters"},
	} {
		wantNotOpened(t, urls, redlock.ErrConfig, words, redlock.WithNamespace(ns))
		wantIs(t, admin.Init(t.Context(), list(urls, redlock.WithNamespace(ns)), nil), redlock.ErrConfig)
	}
	err := admin.Reconfigure(t.Context(), list(urls, redlock.WithNamespace("a")), list(urls[:1], redlock.WithNodeCount(1), redlock.WithNamespace("b")), nil)
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, `"a" and "b"`)
}
