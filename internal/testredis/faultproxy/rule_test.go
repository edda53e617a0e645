// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// A lock on one master, as simple as can be: enough to show what a held message does to it.
var (
	acquire = redis.NewScript(`if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 60000) then return 1 end return 0`)
	release = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)
)

// runs matches the EVALSHA of a script.
func runs(s *redis.Script) Match { return named("evalsha", s.Hash()) }

func loaded(t *testing.T) *rig {
	r := newRig(t, localredis.Config{})
	must(t, acquire.Load(within(t), r.direct).Err())
	must(t, release.Load(within(t), r.direct).Err())
	return r
}

// docs/safety.md A14: the release of the first try arrives after the second try was granted, and takes its lock away.
func TestHold_releaseDeliveredAfterLaterAcquire_deletesLiveLock(t *testing.T) {
	r := loaded(t)
	ctx, c := within(t), r.client(r.Addr(), 3)
	if got := acquire.EvalSha(ctx, c, []string{"lock"}, "v").Val(); got != int64(1) {
		t.Fatalf("acquire: %v", got)
	}
	held := r.Hold(runs(release))
	impatient := r.dial()
	impatient.send("EVALSHA " + release.Hash() + " 1 lock v")
	must(t, held.Wait(ctx))
	impatient.wantNothing()
	must(t, impatient.Close()) // gives up
	if got := string(held.Command()[4]); got != "v" {
		t.Errorf("held %q", held.Command())
	}
	must(t, r.direct.Del(ctx, "lock").Err()) // the lock became free some other way
	if got := acquire.EvalSha(ctx, c, []string{"lock"}, "v").Val(); got != int64(1) {
		t.Fatalf("second acquire: %v", got)
	}
	reply, err := held.Deliver(ctx)
	if err != nil || string(reply) != ":1\r\n" {
		t.Fatalf("Deliver = %q, %v", reply, err)
	}
	if r.direct.Exists(ctx, "lock").Val() != 0 {
		t.Error("the late release did not delete the lock")
	}
	must(t, c.Ping(ctx).Err())
}

// docs/safety.md A13: the acquire arrives after the release that was to undo it, and blocks the lock.
func TestHold_acquireDeliveredAfterItsRelease_zombie(t *testing.T) {
	r := loaded(t)
	c := r.dial()
	held := r.Hold(runs(acquire))
	c.send("EVALSHA "+acquire.Hash()+" 1 lock v", "EVALSHA "+release.Hash()+" 1 lock v") // one pipeline
	must(t, held.Wait(within(t)))
	eventually(t, "the release has run", func() bool { return r.Stats().Replies == 1 })
	c.wantNothing() // its reply may not come before the acquire's
	_, err := held.Deliver(within(t))
	must(t, err)
	c.want(":1", ":0")
	if r.direct.Exists(within(t), "lock").Val() != 1 {
		t.Error("no zombie")
	}
}

func TestHold_middleOfPipeline_earlierRepliesGoOnLaterOnesWait(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c, other := r.dial(), r.dial()
	one, two := r.Hold(named("set", "a")), r.Hold(named("set", "b"))
	c.send("INCR n", "SET a 1", "INCR n", "SET b 1", "INCR n", "SET a 2")
	c.want(":1")
	c.wantNothing()
	other.send("GET n", "GET a") // others go on; the second "SET a" was not held
	other.want("$1", "3", "$1", "2")
	reply, err := two.Deliver(within(t))
	if err != nil || string(reply) != "+OK\r\n" {
		t.Fatalf("Deliver = %q, %v", reply, err)
	}
	c.wantNothing()
	_, err = one.Deliver(within(t))
	must(t, err)
	c.want("+OK", ":2", "+OK", ":3", "+OK")
	other.send("GET a") // it did overtake: 1 was written last
	other.want("$1", "1")
	c.send("PING")
	c.want("+PONG")
	if s := r.Stats(); s.Held != 2 {
		t.Errorf("%+v", s)
	}
}

func TestHold_deliveredTwice_executedTwiceFirstReplyCounts(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	before, held := r.Hold(named("get")), r.Hold(named("incr"))
	c.send("GET k", "INCR n")
	must(t, held.Wait(within(t)))
	for _, want := range []string{":1\r\n", ":2\r\n"} {
		if reply, err := held.Deliver(within(t)); err != nil || string(reply) != want {
			t.Fatalf("Deliver = %q, %v", reply, err)
		}
	}
	_, err := before.Deliver(within(t))
	must(t, err)
	c.want("$-1", ":1")
	c.send("INCR n")
	c.want(":3")
}

func TestHold_linkDrops_swallowedNotHeld(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	held := r.Hold(named("set"))
	r.Set(ToMaster, Fault{Drop: true})
	c.send("SET k v")
	eventually(t, "dropped", func() bool { return r.Stats().Dropped > 0 })
	if held.Command() != nil {
		t.Error("held what never got to it")
	}
}

func TestHold_originalGoneAndMasterRestarted_deliveredWithItsPasswordAndDatabase(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			r := newRig(t, localredis.Config{Password: "secret"})
			ctx := within(t)
			opt := r.client(r.Addr(), protocol).Options()
			opt.DB, opt.MaxRetries = 5, -1 // of a client that is made the options say 0, which is the default of a new one
			c := redis.NewClient(opt)
			defer c.Close()
			held := r.Hold(named("hset"))
			answer := make(chan error, 1)
			go func() { answer <- c.HSet(ctx, "h", "f", "v").Err() }()
			must(t, held.Wait(ctx))
			r.Cut()
			if err := <-answer; err == nil {
				t.Fatal("answered")
			}
			must(t, r.master.Kill())
			if _, err := held.Deliver(ctx); err == nil {
				t.Fatal("delivered to a master that is down")
			}
			must(t, r.master.Restart(ctx))
			if reply, err := held.Deliver(ctx); err != nil || string(reply) != ":1\r\n" {
				t.Fatalf("Deliver = %q, %v", reply, err)
			}
			if got := c.HGet(ctx, "h", "f").Val(); got != "v" {
				t.Errorf("in database 5: %q", got)
			}
		})
	}
}

func TestHold_nothingCaught_waitEndsDeliverFailsDropForgets(t *testing.T) {
	r := newRig(t, localredis.Config{})
	held := r.Hold(named("set"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := held.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := held.Deliver(within(t)); err == nil || held.Command() != nil {
		t.Errorf("Deliver: %v, Command %q", err, held.Command())
	}
	held.Drop()
	c := r.dial()
	c.send("SET k v")
	c.want("+OK")
}

func TestHold_droppedWhileClientWaits_cutAndNeverExecuted(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	held := r.Hold(named("set"))
	c.send("SET k v")
	must(t, held.Wait(within(t)))
	held.Drop()
	held.Drop()
	c.wantEnd()
	if r.direct.Exists(within(t), "k").Val() != 0 {
		t.Error("executed")
	}
}

func TestDeliver_masterHangs_endsWithContext(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	held := r.Hold(named("set"))
	c.send("SET k v")
	must(t, held.Wait(within(t)))
	must(t, r.master.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := held.Deliver(ctx); err == nil {
		t.Error("delivered to a paused master")
	}
}

// docs/safety.md A17, and why a lock client must not let its Redis client retry.
func TestCutBeforeReply_executedOnceAndConnectionCut(t *testing.T) {
	r := newRig(t, localredis.Config{})
	ctx, c := within(t), r.client(r.Addr(), 3)
	rule := r.CutBeforeReply(named("incr"))
	if err := c.Incr(ctx, "k").Err(); err == nil {
		t.Fatal("answered")
	}
	must(t, rule.Wait(ctx))
	if got := r.direct.Get(ctx, "k").Val(); got != "1" {
		t.Errorf("executed %q times", got)
	}
	rule.Remove()
	if got, err := c.Incr(ctx, "k").Result(); got != 2 || err != nil {
		t.Errorf("after the rule: %d, %v", got, err)
	}
	if s := r.Stats(); rule.Hits() != 1 || s.CutsBeforeReply != 1 {
		t.Errorf("%d hits, %+v", rule.Hits(), s)
	}
}

func TestCutBeforeReply_inPipeline_earlierRepliesStillArrive(t *testing.T) {
	r := newRig(t, localredis.Config{})
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		must(t, r.direct.FlushAll(within(t)).Err())
		r.Set(ToClient, Fault{Delay: delay})
		c := r.dial()
		rule := r.CutBeforeReply(named("incr", "b"))
		c.send("INCR a", "INCR a", "INCR b", "INCR c")
		c.want(":1", ":2")
		c.wantEnd()
		rule.Remove()
		if got := fmt.Sprint(r.direct.MGet(within(t), "a", "b").Val()); got != "[2 1]" {
			t.Errorf("executed: %s", got)
		}
	}
}

func TestSlowReply_matchingReplyLate_executedAtOnce(t *testing.T) {
	const late = 150 * time.Millisecond
	stall.Try(t, late/2, func(t testing.TB) {
		r := newRig(t, localredis.Config{})
		c, other := r.dial(), r.dial()
		rule := r.SlowReply(named("incr"), late)
		begin := time.Now()
		c.send("PING", "INCR k", "PING")
		c.want("+PONG")
		must(t, rule.Wait(within(t)))
		other.send("GET k")
		other.want("$1", "1")
		c.wantNothing()
		c.want(":1", "+PONG")
		if took := time.Since(begin); took < late {
			t.Errorf("slow reply after %v", took)
		}
	})
}

func TestRules_severalMatch_oldestHasIt(t *testing.T) {
	r := newRig(t, localredis.Config{})
	first := r.SlowReply(named("incr"), time.Millisecond)
	second := r.CutBeforeReply(named("incr"))
	c := r.dial()
	c.send("INCR k")
	c.want(":1")
	first.Remove()
	c.send("INCR k")
	c.wantEnd()
	if first.Hits() != 1 || second.Hits() != 1 {
		t.Errorf("hits %d, %d", first.Hits(), second.Hits())
	}
}

// Where replies do not pair with commands, rules keep off and everything arrives.
func TestRules_subscribedConnection_exempt(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	rule := r.CutBeforeReply(named("ping"))
	c.send("SUBSCRIBE a b", "PING", "UNSUBSCRIBE a b")
	lines := func(kind, channel, n string) []string {
		return []string{"*3", fmt.Sprintf("$%d", len(kind)), kind, "$1", channel, ":" + n}
	}
	c.want(lines("subscribe", "a", "1")...)
	c.want(lines("subscribe", "b", "2")...)
	c.want("*2", "$4", "pong", "$0", "")
	c.want(lines("unsubscribe", "a", "1")...)
	c.want(lines("unsubscribe", "b", "0")...)
	if rule.Hits() != 0 {
		t.Error("a rule was applied")
	}
}

// Pushed messages come between replies and answer nothing, so they must neither shift the pairing nor wait for a held command.
func TestRules_pushedMessageWhileReplyIsDue_pairingKept(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	c.send("HELLO 3", "CLIENT TRACKING on BCAST PREFIX k")
	var hello message
	must(t, hello.readReply(c.r))
	c.want("+OK")
	held := r.Hold(named("get"))
	c.send("GET k", "BLPOP q 0")
	must(t, held.Wait(within(t)))
	must(t, r.direct.Set(within(t), "k", "v", 0).Err())
	c.want(">2", "$10", "invalidate", "*1", "$1", "k")
	must(t, r.direct.RPush(within(t), "q", "e").Err())
	c.wantNothing()
	_, err := held.Deliver(within(t))
	must(t, err)
	c.want("$1", "v", "*2", "$1", "q", "$1", "e")
}
