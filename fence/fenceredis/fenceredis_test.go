// SPDX-License-Identifier: Apache-2.0

package fenceredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/internal/fencetest"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial starts a redis-server of its own for the test, or skips it where none is installed.
func dial(t *testing.T, cfg localredis.Config) *redis.Client {
	t.Helper()
	needs.Redis(t)
	s, err := localredis.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantStale(t *testing.T, err error, want fence.StaleError) {
	t.Helper()
	var stale *fence.StaleError
	ok := errors.As(err, &stale)
	if !ok || *stale != want || !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v, want a StaleError %+v", err, want)
	}
}

func TestPresent_sequenceOfTokens_largestKept(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	for _, token := range []int64{5, 5, 6, 10, 1790000000123456, fence.MaxToken - 1, fence.MaxToken, fence.MaxToken} {
		must(t, Present(t.Context(), c, "account", token))
		if got := c.Get(t.Context(), "redlock_fence:{account}").Val(); got != fmt.Sprint(token) {
			t.Errorf("presented %d, stored %q", token, got)
		}
	}
	wantStale(t, Present(t.Context(), c, "account", fence.MaxToken-1), fence.StaleError{Resource: "account", Token: fence.MaxToken - 1, Seen: fence.MaxToken})
	wantStale(t, Present(t.Context(), c, "account", 9), fence.StaleError{Resource: "account", Token: 9, Seen: fence.MaxToken})
	if got := c.Get(t.Context(), "redlock_fence:{account}").Val(); got != "9007199254740991" {
		t.Errorf("a refused token changed the fence to %q", got)
	}
	must(t, Present(t.Context(), c, "other", 1)) // keys do not meet
}

func TestPresent_tokensOfDifferentLength_comparedAsNumbers(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	must(t, Present(t.Context(), c, "account", 10))
	wantStale(t, Present(t.Context(), c, "account", 9), fence.StaleError{Resource: "account", Token: 9, Seen: 10})
	must(t, Present(t.Context(), c, "account", 100))
}

func TestPresent_fenceWithTTL_madePermanent(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	must(t, c.Set(t.Context(), "redlock_fence:{account}", 5, time.Hour).Err())
	must(t, Present(t.Context(), c, "account", 5))
	if ttl := c.TTL(t.Context(), "redlock_fence:{account}").Val(); ttl != -1 {
		t.Errorf("TTL %v", ttl)
	}
}

func TestSet_afterPresent_byWhoWasSeen(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	if err := Set(t.Context(), c, "account", 5, "x"); !errors.Is(err, fence.ErrNotPresented) {
		t.Errorf("no fence: %v", err)
	}
	must(t, Present(t.Context(), c, "account", 5))
	must(t, Set(t.Context(), c, "account", 5, "by 5"))
	if err := Set(t.Context(), c, "account", 6, "by 6"); !errors.Is(err, fence.ErrNotPresented) {
		t.Errorf("6 was not presented: %v", err)
	}
	must(t, Present(t.Context(), c, "account", 6))
	wantStale(t, Set(t.Context(), c, "account", 5, "by 5 again"), fence.StaleError{Resource: "account", Token: 5, Seen: 6})
	if got := c.Get(t.Context(), "account").Val(); got != "by 5" {
		t.Errorf("a refused write left %q", got)
	}
}

func TestDo_replies_asTheCommandGivesThem(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	must(t, Present(t.Context(), c, "k", 5))
	do := func(want any, command string, args ...any) {
		t.Helper()
		got, err := Do(t.Context(), c, "k", 5, command, args...)
		if err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%s: got %#v, %v, want %#v", command, got, err, want)
		}
	}
	do(nil, "GET")
	do("OK", "SET", "10", "EX", 100)
	do(int64(11), "INCR")
	do("11", "GET")
	do(int64(1), "DEL")
	do(int64(2), "HSET", "f", "1", "g", "2")
	do([]any{"1", nil}, "HMGET", "f", "x")

	_, err := Do(t.Context(), c, "k", 5, "GET")
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || errors.Is(err, fence.ErrStale) {
		t.Errorf("a failing command: %v", err)
	}
	wantStale(t, Present(t.Context(), c, "k", 4), fence.StaleError{Resource: "k", Token: 4, Seen: 5})
}

func TestFence_keyHoldsSomethingElse_namedInTheError(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	for _, value := range []string{"soon", "", "0x10", "-7", "1e3", "99999999999999999999"} {
		must(t, c.Set(t.Context(), "redlock_fence:{account}", value, 0).Err())
		for name, err := range map[string]error{
			"present": Present(t.Context(), c, "account", 5),
			"set":     Set(t.Context(), c, "account", 5, "x"),
		} {
			if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), fmt.Sprintf("%q", value)) && value != "-7" {
				t.Errorf("%s, fence %q: %v", name, value, err)
			}
		}
		if got := c.Get(t.Context(), "redlock_fence:{account}").Val(); got != value {
			t.Errorf("fence %q became %q", value, got)
		}
	}
	must(t, c.Del(t.Context(), "redlock_fence:{account}").Err())
	must(t, c.LPush(t.Context(), "redlock_fence:{account}", 1).Err())
	if err := Present(t.Context(), c, "account", 5); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a list: %v", err)
	}
	if n := c.Exists(t.Context(), "account").Val(); n != 0 {
		t.Error("something was written")
	}
}

func TestDo_badInput_namedInTheError(t *testing.T) {
	c := redis.NewClient(&redis.Options{}) // never dials
	defer c.Close()
	for _, call := range []func(redis.Scripter, string, int64) error{
		func(c redis.Scripter, key string, token int64) error { return Present(t.Context(), c, key, token) },
		func(c redis.Scripter, key string, token int64) error { return Set(t.Context(), c, key, token, "x") },
	} {
		for want, got := range map[string]error{
			"nil client":           call(nil, "account", 5),
			"nil client: pass":     call((*redis.Client)(nil), "account", 5),
			"empty resource":       call(c, "", 5),
			`key "a}b"`:            call(c, "a}b", 5),
			"token 0 for":          call(c, "account", 0),
			"token -3 for":         call(c, "account", -3),
			"9007199254740992 for": call(c, "account", 1<<53),
		} {
			if got == nil || !strings.Contains(got.Error(), want) {
				t.Errorf("want %q, got %v", want, got)
			}
		}
	}
	var none context.Context
	if err := Present(none, c, "account", 5); err == nil || !strings.Contains(err.Error(), "nil context") {
		t.Error(err)
	}
}

// braced are all keys of one to five of { } a.
func braced() (keys []string) {
	for words := []string{""}; len(words[0]) < 5; {
		var longer []string
		for _, w := range words {
			longer = append(longer, w+"{", w+"}", w+"a")
		}
		words = longer
		keys = append(keys, longer...)
	}
	return keys
}

// Two keys have two fences: else a token that was presented for one refuses those of the other.
func TestFenceKey_twoKeys_twoFences(t *testing.T) {
	of := make(map[string]string)
	for _, key := range braced() {
		fenceKey, err := FenceKey(key)
		if err != nil {
			continue
		}
		if other, ok := of[fenceKey]; ok {
			t.Errorf("%q and %q have the fence %q", key, other, fenceKey)
		}
		of[fenceKey] = key
	}
	if len(of) < 100 {
		t.Errorf("%d keys were accepted", len(of))
	}
}

// The server itself says in which slot a key is, and refuses a script over two slots.
func TestFenceKey_anyKey_sameSlotOrRefused(t *testing.T) {
	needs.Cluster(t)
	needs.EveryServer(t)
	c := dial(t, localredis.Config{Cluster: true})
	must(t, c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	keys := map[string]bool{ // accepted
		"account": true, "user:{42}:x": true, "a{b": true, "}{a}": true, "a{b}{c}": true, "{a}": true, "{{a}}": true, "{": true, " ": true,
		"": false, "a}b": false, "{}a": false, "{}": false, "}": false, "a{}{b}": false, "}{": false,
	} // and every other one that is not refused
	for _, key := range braced() {
		if _, err := FenceKey(key); err == nil {
			keys[key] = true
		}
	}
	for key, accepted := range keys {
		fenceKey, err := FenceKey(key)
		if (err == nil) != accepted {
			t.Errorf("%q: %v", key, err)
		}
		if err == nil && c.ClusterKeySlot(t.Context(), key).Val() != c.ClusterKeySlot(t.Context(), fenceKey).Val() {
			t.Errorf("%q and its fence %q are in two slots", key, fenceKey)
		}
	}
	for limit := time.Now().Add(30 * time.Second); !strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the cluster does not come up")
		}
	}
	for _, key := range []string{"account", "user:{42}:x", "a{b"} {
		must(t, Present(t.Context(), c, key, 5))
		must(t, Set(t.Context(), c, key, 5, "x"))
	}
}

func TestPresent_concurrentFirstPresenters_largestWins(t *testing.T) {
	needs.EveryServer(t)
	const presenters = 8
	c := dial(t, localredis.Config{})
	for r := range 20 {
		key := fmt.Sprintf("key-%d", r)
		errs := make([]error, presenters+1)
		var wg sync.WaitGroup
		for token := 1; token <= presenters; token++ {
			wg.Go(func() { errs[token] = Present(t.Context(), c, key, int64(token)) })
		}
		wg.Wait()
		for token, err := range errs {
			var stale *fence.StaleError
			ok := errors.As(err, &stale)
			if err != nil && (!ok || stale.Seen <= int64(token)) || token == presenters && err != nil {
				t.Errorf("%s, token %d: %v", key, token, err)
			}
		}
	}
}

// register is a key of a real server.
type register struct {
	t   *testing.T
	c   *redis.Client
	key string
}

func (r register) Present(token int64) error { return Present(r.t.Context(), r.c, r.key, token) }

func (r register) Read() (string, error) {
	value, err := r.c.Get(r.t.Context(), r.key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return value, err
}

func (r register) Write(token int64, value string) error {
	return Set(r.t.Context(), r.c, r.key, token, value)
}

func (r register) Overwrite(value string) error {
	return r.c.Set(r.t.Context(), r.key, value, 0).Err()
}

func TestFence_randomInterleavings_noLostUpdate(t *testing.T) {
	needs.EveryServer(t)
	c := dial(t, localredis.Config{})
	fencetest.Verify(t, 200, func(t *testing.T, run int) fencetest.Register {
		return register{t: t, c: c, key: fmt.Sprintf("%s-%d", t.Name(), run)}
	})
}
