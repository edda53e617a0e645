// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

func TestMain(m *testing.M) {
	Serve()
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// spec is a client on three masters of its own.
func spec(t testing.TB) Spec {
	t.Helper()
	servers, err := localredis.StartN(t.Context(), 4, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Kinds: Kinds(), Task: client.Task{
		Name: "c1", Seed: 1, TTL: 200 * time.Millisecond, MaxTTL: time.Second, Think: 5 * time.Millisecond,
		History: filepath.Join(t.TempDir(), "c1.jsonl"), Header: history.Header{Masters: 3, TTL: 200 * time.Millisecond, Promises: history.Promises{Exclusion: true, Tokens: true}, Idle: []string{"counters"}},
	}}
	for _, r := range servers {
		t.Cleanup(func() { _ = r.Close() })
		s.Nodes = append(s.Nodes, r.URL())
	}
	s.Nodes, s.Register = s.Nodes[:3], servers[3].Addr()
	list := admin.List{URLs: s.Nodes, Options: []redlock.Option{redlock.WithTTL(s.TTL), redlock.WithMaxTTL(s.MaxTTL), redlock.WithFixedMasters()}}
	if err := admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProcess_healthyMasters_recordsEverythingThatIsPromised(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 50*time.Millisecond, func(try testing.TB) { recordsEverything(t, try) }) // a signal has 100 ms
}

// timed are the checkers that a machine can break that was held up.
var timed = []string{"effort", "left-behind", "signals", "resources", "queue-order", "availability"}

// recordsEverything reports to try what a slow machine may be the reason of.
func recordsEverything(t *testing.T, try testing.TB) {
	s := spec(try)
	p, err := Start(try.Context(), s)
	if err != nil {
		try.Fatal(err)
	}
	held := false
	never := Locks(Kinds())                                                           // which the client has not said that it was granted
	multi := func(lock string) bool { return strings.HasPrefix(lock, string(Multi)) } // it does not say so of these
	start := time.Now()
	for time.Since(start) < 3*time.Second || len(never) > 0 && time.Since(start) < 20*time.Second {
		held = held || p.Holds(string(Hot))
		never = slices.DeleteFunc(never, func(lock string) bool { return multi(lock) || !p.Took(lock).IsZero() })
		time.Sleep(time.Millisecond)
	}
	if err := p.Storm(); err != nil {
		try.Fatal(err)
	}
	if err := p.Pause(); err != nil {
		try.Fatal(err)
	}
	if err := p.Finish(try.Context()); err != nil { // wakes it first
		try.Fatal(err)
	}
	if !held {
		try.Error("never said that it holds the hot lock")
	}
	h, err := history.ReadFiles(s.History)
	if err != nil {
		t.Error(err)
		return
	}
	for _, r := range judge.All(h, judge.Expect{X: true, T: true, Heal: time.Second, Timeout: time.Minute, Min: judge.Minimums{Acquisitions: 100, Contended: 10, Tokens: 100}}) {
		switch {
		case r.ID == "healed" || !r.Promised || r.Verdict == check.Ok: // nobody probes here
		case slices.Contains(timed, r.ID):
			try.Errorf("%s: %s", r.ID, r.Summary)
		default:
			t.Errorf("%s: %s", r.ID, r.Summary)
		}
	}
	if n := len(h.Pulses); n < 3 || !h.Pulses[0].Idle || !h.Pulses[n-1].Idle || h.Pulses[n-1].Goroutines == 0 || h.Pulses[n-2].Heap == 0 {
		t.Errorf("pulses %+v", h.Pulses)
	}
	var locks []string
	kinds := map[history.Kind]int{}
	for _, op := range h.Ops {
		kinds[op.Kind]++
		if op.Kind == history.KindLock && op.Outcome == history.OK && !slices.Contains(locks, op.Lock) {
			locks = append(locks, op.Lock)
		}
		if op.Kind == history.KindLock && op.Outcome == history.OK && strings.Count(op.Voters, ",") < 1 {
			t.Errorf("%s by the votes of %q, of three masters", op.Holder, op.Voters)
		}
	}
	want := Locks(Kinds())
	slices.Sort(want)
	if slices.Sort(locks); !slices.Equal(locks, want) {
		try.Errorf("locked %v, want %v", locks, want)
	}
	for _, k := range []history.Kind{history.KindUnlock, history.KindExtend, history.KindRead, history.KindWrite} {
		if kinds[k] == 0 {
			try.Errorf("no %s on record", k)
		}
	}
}

// Killed at any time, a client leaves a history that can be read.
func TestProcess_killed_leavesARecord(t *testing.T) {
	needs.Redis(t)
	s := spec(t)
	p, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for !p.Holds(string(Hot)) {
		time.Sleep(time.Millisecond)
	}
	p.Kill()
	if h, err := history.ReadFiles(s.History); err != nil || len(h.Ops) == 0 {
		t.Errorf("%v", err)
	}
}

func TestStart_badSpec_saysWhy(t *testing.T) {
	good := Spec{Kinds: []Kind{Hot}, Task: client.Task{Name: "c1", Nodes: []string{"redis://127.0.0.1:1"}, TTL: time.Second, MaxTTL: time.Second, Think: 1, History: "h", Header: history.Header{Masters: 1, TTL: 1}}}
	for want, change := range map[string]func(*Spec){
		"name, history":      func(s *Spec) { s.Name = "" },
		"no longer than":     func(s *Spec) { s.MaxTTL = 0 },
		"Redis of their own": func(s *Spec) { s.Kinds = []Kind{Fenced} },
		"masters":            func(s *Spec) { s.History = filepath.Join(t.TempDir(), "h") }, // one is too few: the client says so and ends
	} {
		s := good
		change(&s)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := Start(ctx, s)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A program that is no client may end before it has read its task, and say nothing.
func TestStart_endsAtOnce_saysSo(t *testing.T) {
	for program, want := range map[string]string{
		"true":  "workload: start c1: the program ended before it was ready",
		"false": "workload: start c1: the program ended before it was ready: exit status 1",
	} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Start(t.Context(), Spec{Program: path, Task: client.Task{Name: "c1", Nodes: []string{"redis://127.0.0.1:1"}, Locks: []string{"hot"}, TTL: time.Second, MaxTTL: time.Second,
			Think: 1, History: filepath.Join(t.TempDir(), "h"), Header: history.Header{Masters: 1, TTL: 1}}})
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Of a client that says a lot on its standard error the end is kept.
func TestStart_longComplaint_keepsItsEnd(t *testing.T) {
	program := filepath.Join(t.TempDir(), "client")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nhead -c 4000000 /dev/zero | tr '\\0' x >&2\necho the reason >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Spec{Program: program, Task: client.Task{Name: "c1", Nodes: []string{"redis://127.0.0.1:1"}, Locks: []string{"hot"}, TTL: time.Second, MaxTTL: time.Second,
		Think: 1, History: filepath.Join(t.TempDir(), "h"), Header: history.Header{Masters: 1, TTL: 1}}})
	if err == nil || !strings.HasSuffix(err.Error(), "xxxthe reason") || len(err.Error()) > 1<<20+1000 {
		s := fmt.Sprint(err)
		t.Errorf("%d bytes, and the last are %q", len(s), s[max(0, len(s)-100):])
	}
}

// A client that is held up for as long as its goroutines may take to end gives them time all the same.
func TestAwaitEnds_heldUp_looksAgain(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		running, looks := 7, 0
		awaitEnds(4, func() int { return running }, func() {
			if looks++; looks == 1 {
				time.Sleep(2 * endTime)
				return
			}
			running = 4
		})
		if running > 4 || looks != 2 {
			t.Errorf("%d goroutines after %d looks", running, looks)
		}
	})
}

func TestParseKinds(t *testing.T) {
	if ks, err := ParseKinds("hot, rw"); err != nil || !slices.Equal(ks, []Kind{Hot, RW}) {
		t.Errorf("got %v, %v", ks, err)
	}
	if ks, err := ParseKinds("all"); err != nil || len(ks) != 12 {
		t.Errorf("got %v, %v", ks, err)
	}
	for _, bad := range []string{"", "tepid", "hot,hot"} {
		if _, err := ParseKinds(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if os.Getenv(client.Env) != "" {
		t.Error("a test must not be a client")
	}
}
