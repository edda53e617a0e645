// SPDX-License-Identifier: Apache-2.0

package redissontest_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/internal/redissontest/wire"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/redlock"
)

func sceneOf(t testing.TB, name string) wire.Scene {
	t.Helper()
	scenes, err := redissontest.Scenes()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(scenes, func(s wire.Scene) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no scene %s", name)
	}
	return scenes[i]
}

// place is one lock on one master.
type place struct {
	node int // from 1
	name string
}

// java is what the Java clients of a scene hold at one place by their own account, that is by the answers they got.
type java struct {
	owners map[string]int // hold counts; a writer's name ends in :write
	ttl    time.Duration  // as last set,
	set    time.Time      // then
}

func (j *java) held() bool { return len(j.owners) > 0 }

// written says whether a reader has to stay out.
func (j *java) written() bool {
	for owner := range j.owners {
		if strings.HasSuffix(owner, ":write") {
			return true
		}
	}
	return false
}

// replay plays a scene's effects on masters, one transaction a call, and keeps Java's account.
type replay struct {
	t       testing.TB
	scene   wire.Scene
	rest    []wire.Effect // not played yet
	masters []*redis.Client
	java    map[place]*java
}

func newReplay(t testing.TB, scene string, addrs []string) *replay {
	t.Helper()
	r := &replay{t: t, scene: sceneOf(t, scene), java: map[place]*java{}}
	r.rest = wire.Effects(r.scene)
	for _, addr := range addrs {
		r.masters = append(r.masters, redissontest.Client(t, addr))
	}
	for _, e := range r.scene.Events {
		if e.Kind == wire.Script {
			r.java[place{e.Node, e.Keys[0]}] = &java{owners: map[string]int{}}
		}
	}
	return r
}

// played plays a scene in a subtest, and again, on other masters, when the machine stood still.
func played(t *testing.T, name string, addrs []string, scene func(t testing.TB, addrs []string)) {
	t.Run(name, func(t *testing.T) {
		tries := 0
		stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
			if tries++; tries > 1 {
				addrs = redissontest.Masters(t, len(addrs))
			}
			scene(t, addrs)
		})
	})
}

// rw says whether the scene is about a read-write lock.
func (r *replay) rw() bool {
	return slices.ContainsFunc(r.scene.Events, func(e wire.Event) bool {
		return strings.HasPrefix(e.Role, "read.") || strings.HasPrefix(e.Role, "write.")
	})
}

// next plays the next call that had an effect. Its role is empty for a plain request, and ok false at the end.
func (r *replay) next() (role string, ok bool) {
	r.t.Helper()
	if len(r.rest) == 0 {
		return "", false
	}
	n := 1
	for n < len(r.rest) && r.rest[n].Call == r.rest[0].Call {
		n++
	}
	call := r.scene.Events[r.rest[0].Call]
	if strings.HasSuffix(call.Role, ".acquire") {
		r.expire(call)
	}
	r.play(r.rest[:n])
	r.account(call, r.reply(r.rest[0].Call), r.rest[:n])
	r.rest = r.rest[n:]
	return call.Role, true
}

// to plays on until a call of that role is played.
func (r *replay) to(role string) {
	r.t.Helper()
	for {
		played, ok := r.next()
		if !ok {
			r.t.Fatalf("%s has no further %s", r.scene.Name, role)
		}
		if played == role {
			return
		}
	}
}

func (r *replay) play(call []wire.Effect) {
	r.t.Helper()
	_, err := r.masters[call[0].Node-1].TxPipelined(r.t.Context(), func(p redis.Pipeliner) error {
		for _, e := range call {
			args := make([]any, len(e.Args))
			for i, a := range e.Args {
				args[i] = a
			}
			p.Do(r.t.Context(), args...)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: LPOP of an empty queue
		r.t.Fatalf("%s, %v: %v", r.scene.Name, call, err)
	}
}

// reply is what a call's client was answered.
func (r *replay) reply(call int) any {
	c := r.scene.Events[call]
	for _, e := range r.scene.Events[call+1:] {
		if e.Kind == wire.Reply && e.Node == c.Node && e.Conn == c.Conn {
			return e.Reply
		}
	}
	r.t.Fatalf("%s: call %d has no reply", r.scene.Name, call)
	return nil
}

// expire waits for the end of an exclusive hold that its owner left to its TTL, where the recording goes on after it.
func (r *replay) expire(call wire.Event) {
	at := place{call.Node, call.Keys[0]}
	j := r.java[at]
	owner := call.Args[1]
	if strings.HasPrefix(call.Role, "read.") || strings.HasPrefix(call.Role, "fair.") || !j.held() || j.owners[owner] > 0 {
		return
	}
	redissontest.Eventually(r.t, "the lock expires", func() bool {
		return r.masters[at.node-1].Exists(r.t.Context(), at.name).Val() == 0
	})
	clear(j.owners)
}

// account takes a call into Java's account.
func (r *replay) account(call wire.Event, reply any, effects []wire.Effect) {
	if call.Kind != wire.Script {
		return
	}
	j := r.java[place{call.Node, call.Keys[0]}]
	side, verb, _ := strings.Cut(call.Role, ".")
	switch verb {
	case "acquire":
		if token, ok := reply.([]any); reply == nil || ok && token[0] == int64(-1) {
			j.owners[call.Args[1]]++
		}
	case "release":
		owner := call.Args[2]
		if side == "read" {
			owner = call.Args[1]
		}
		if j.owners[owner]--; j.owners[owner] == 0 {
			delete(j.owners, owner)
		}
	case "force-release":
		clear(j.owners)
	}
	for _, e := range effects {
		if e.Args[0] == "pexpire" && e.Args[1] == call.Keys[0] {
			ms, _ := strconv.Atoi(e.Args[2])
			j.ttl, j.set = time.Duration(ms)*time.Millisecond, time.Now()
		}
	}
}

// wantTry tries our lock once and says whether that came out as it should. A refusal must tell Java's TTL.
func wantTry(t testing.TB, what string, m redlock.Locker, want bool, j *java) {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	// The quorum lock of the step before got its majority, and its Unlock: the third master may have both to do yet.
	for deadline := time.Now().Add(time.Second); want && errors.Is(err, redlock.ErrHeld) && time.Now().Before(deadline); {
		lease, err = m.TryLock(t.Context())
	}
	if err == nil {
		if !want {
			t.Errorf("%s: granted beside %v", what, slices.Collect(maps.Keys(j.owners)))
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Errorf("%s: unlock: %v", what, err)
		}
		return
	}
	var round *redlock.RoundError
	if want || !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &round) {
		t.Errorf("%s: %v", what, err)
		return
	}
	// A TTL that a script took from another key's is the recording's, some ms off the replay's, whose masters may also
	// be late on a busy machine.
	const off = 300 * time.Millisecond
	if least := j.ttl - time.Since(j.set) - off; round.RetryAfter < least || round.RetryAfter > j.ttl+off {
		t.Errorf("%s: retry after %v, Java has set %v %v ago", what, round.RetryAfter, j.ttl, time.Since(j.set))
	}
}
