// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// both runs a test with go-redis and without.
func both(t *testing.T, test func(t *testing.T, how opener)) {
	t.Run("go-redis", func(t *testing.T) { test(t, Open) })
	t.Run("raw", func(t *testing.T) { test(t, OpenRaw) })
}

type opener func([]*redis.Options, int) (*Floor, error)

// open starts n masters and a floor over them.
func open(t *testing.T, n int, how opener) (*Floor, []*redis.Client, []*localredis.Server) {
	t.Helper()
	servers, err := localredis.StartN(t.Context(), n, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var opts []*redis.Options
	var admins []*redis.Client
	for _, s := range servers {
		o := &redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1}
		opts = append(opts, o)
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		admins = append(admins, c)
		t.Cleanup(func() {
			_ = c.Close()
			_ = s.Close()
		})
	}
	f, err := how(opts, n)
	if err != nil {
		t.Fatal(err)
	}
	return f, admins, servers
}

func TestPair_manyCallers_everyMasterDoesAllTheWork(t *testing.T) {
	needs.Redis(t)
	both(t, pairManyCallersEveryMasterDoesAllTheWork)
}

func pairManyCallersEveryMasterDoesAllTheWork(t *testing.T, how opener) {
	f, admins, _ := open(t, 3, how)
	const callers, pairs = 8, 50
	var wg sync.WaitGroup
	for i := range callers {
		c := f.Caller(string(rune('a'+i)), time.Minute)
		wg.Go(func() {
			for range pairs {
				if err := c.Pair(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.Close() // a majority was waited for; Close sends the rest
	want := "calls=400,"
	for i, a := range admins {
		stats := a.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]
		for _, cmd := range []string{"exists", "hset", "pexpire", "hdel"} {
			if got := stats["cmdstat_"+cmd]; len(got) < len(want) || got[:len(want)] != want {
				t.Errorf("master %d, %s: %q, want %q", i, cmd, got, want)
			}
		}
		if got := stats["cmdstat_evalsha"]; got[:len("calls=800,")] != "calls=800," {
			t.Errorf("master %d, evalsha: %q, want 800 calls", i, got)
		}
		if n := a.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("master %d has %d keys left", i, n)
		}
	}
}

func TestPair_keyTakenOnMajority_noMajority(t *testing.T) {
	needs.Redis(t)
	both(t, pairKeyTakenOnMajorityNoMajority)
}

func pairKeyTakenOnMajorityNoMajority(t *testing.T, how opener) {
	f, admins, _ := open(t, 3, how)
	defer f.Close()
	c := f.Caller("k", time.Minute)
	for i, want := range []error{nil, ErrNoMajority} { // one, then two of three are another's
		admins[i].Set(t.Context(), "k", "another", 0)
		if err := c.Pair(); !errors.Is(err, want) {
			t.Errorf("taken on %d of 3 masters: %v, want %v", i+1, err, want)
		}
	}
	for _, a := range admins[:2] {
		if v := a.Get(t.Context(), "k").Val(); v != "another" {
			t.Errorf("the other's key is now %q", v)
		}
	}
}

// A release must find the key that its own acquire set: a pair whose keys are thrown away in between is no pair.
func TestRound_releaseFindsNothing_lost(t *testing.T) {
	needs.Redis(t)
	both(t, roundReleaseFindsNothingLost)
}

func roundReleaseFindsNothingLost(t *testing.T, how opener) {
	f, _, _ := open(t, 3, how)
	defer f.Close()
	c := f.Caller("k", time.Minute)
	if err := c.round("evalsha", releaseHash, 1, "k", "nobody"); !errors.Is(err, ErrNoMajority) {
		t.Errorf("a release that found nothing counts: %v", err)
	}
}

func TestPair_masterGone_majorityGoesOn(t *testing.T) {
	needs.Redis(t)
	both(t, pairMasterGoneMajorityGoesOn)
}

func pairMasterGoneMajorityGoesOn(t *testing.T, how opener) {
	f, _, servers := open(t, 3, how)
	defer f.Close()
	c := f.Caller("k", time.Minute)
	for i, want := range []error{nil, ErrNoMajority} {
		if err := servers[i].Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Pair(); !errors.Is(err, want) {
			t.Errorf("%d of 3 masters gone: %v, want %v", i+1, err, want)
		}
	}
}

func TestOpen_noMaster_errorAndNothingLeft(t *testing.T) {
	needs.Redis(t)
	both(t, openNoMasterErrorAndNothingLeft)
}

func openNoMasterErrorAndNothingLeft(t *testing.T, how opener) {
	_, err := how([]*redis.Options{{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1}}, 1)
	if err == nil {
		t.Error("no error") // that nothing is left is goleak's to say
	}
}

// A majority is one of all masters, also of those that are down already when the floor is opened: three of five, if three are left.
func TestOpen_mastersDown_majorityOfAll(t *testing.T) {
	needs.Redis(t)
	both(t, openMastersDownMajorityOfAll)
}

func openMastersDownMajorityOfAll(t *testing.T, how opener) {
	var opts []*redis.Options
	f, admins, servers := open(t, 3, how)
	f.Close()
	for _, s := range servers {
		opts = append(opts, &redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1})
	}
	f, err := how(opts, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := f.Caller("k", time.Minute)
	if err := c.Pair(); err != nil {
		t.Errorf("three of five masters: %v", err)
	}
	admins[0].Set(t.Context(), "k", "another", 0)
	if err := c.Pair(); !errors.Is(err, ErrNoMajority) {
		t.Errorf("two of five masters: %v, want %v", err, ErrNoMajority)
	}
	if _, err := how(opts[:2], 5); !errors.Is(err, ErrNoMajority) {
		t.Errorf("a floor over two of five masters: %v, want %v", err, ErrNoMajority)
	}
}
