// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Another library may keep a lock as a string, as the plain SET NX PX does. A scan records such a key as it records a hash, but without ids.
func TestScan_lockOfAnotherType_isRecorded(t *testing.T) {
	_, cs := someones(t, 1, localredis.Config{})
	c, ctx := cs[0], t.Context()
	if err := c.Set(ctx, "hot", "somebody", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.HSet(ctx, "cold-1", "a:1", 1, "mode", "write").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, queuePrefix+"{hot}", "no queue of ours", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := history.NewWriter(&b, history.Header{Started: time.Now(), Driver: "process", Masters: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{target: &nemesis.Target{Locks: []string{"hot", "cold-1"}}, history: w}
	if found, err := r.scanNode(ctx, "m1", c); err != nil || found != 2 {
		t.Errorf("found %d keys (%v), want 2", found, err)
	}
	h, err := history.Read("scan", &b)
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]string{}
	for _, k := range h.Keys {
		holders[k.Lock+" "+string(k.What)] = k.Holders
	}
	want := map[string]string{"hot " + string(history.KeyVotes): "", "cold-1 " + string(history.KeyVotes): "a:1", "hot " + string(history.KeyQueue): ""}
	for key, ids := range want {
		if got, there := holders[key]; !there || got != ids {
			t.Errorf("%s is recorded: %v, with holders %q, want %q", key, there, got, ids)
		}
	}
}

// A master that answers late in the aftermath is asked again, whatever it is asked for: a machine may be busy.
func TestAftermath_masterAnswersLate_isAskedAgain(t *testing.T) {
	needs.Redis(t)
	needs.Test(t) // it waits for a second and a half
	c, err := cluster.Open(t.Context(), cluster.Config{Driver: cluster.Process, Masters: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w, err := history.NewWriter(io.Discard, history.Header{Started: time.Now(), Driver: "process", Masters: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m := c.Masters()[0]
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	resumed := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() { resumed <- m.Unpause(context.Background()) }) // later than a reading waits
	var all sync.WaitGroup
	for name, do := range map[string]func(*run) error{
		"settle":        func(r *run) error { return r.settle(t.Context()) },
		"deleteStuck":   func(r *run) error { return r.deleteStuck(t.Context()) },
		"leaveNodes":    func(r *run) error { return r.leaveNodes() },
		"readRegisters": func(r *run) error { return r.readRegisters(t.Context()) },
	} {
		all.Go(func() {
			r := &run{cfg: Config{TTL: time.Minute, Workloads: []workload.Kind{workload.Fenced}}, claimed: true, history: w, registerServer: c,
				target: &nemesis.Target{Nodes: []*nemesis.Node{nemesis.NewNode("m1", m)}}}
			if err := do(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	if err := <-resumed; err != nil {
		t.Error(err)
	}
}

// afterBoth is a history's file, which says when two locks are on record as taken.
type afterBoth struct {
	bytes.Buffer
	taken int
	both  func()
}

func (a *afterBoth) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"ok"`)) {
		if a.taken++; a.taken == 2 {
			a.both()
		}
	}
	return a.Buffer.Write(b)
}

// A lock that no client takes does not make the others late.
func TestAwaitGrants_oneLockIsStuck_theOthersAreInTime(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(badVar, "miser")
	header := history.Header{Started: time.Now(), Driver: "process", Masters: 1, TTL: time.Second}
	locks := []string{"stuck", "a", "b"}
	p, err := workload.Start(t.Context(), workload.Spec{Program: self, Task: client.Task{
		Name: "c1", Nodes: []string{"none"}, Locks: locks, TTL: time.Second, MaxTTL: time.Second, Think: time.Millisecond, History: filepath.Join(t.TempDir(), "c1"), Header: header,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := &afterBoth{both: cancel}
	w, err := history.NewWriter(file, header)
	if err != nil {
		t.Fatal(err)
	}
	slot := &clientSlot{}
	slot.process.Store(p)
	r := &run{cfg: Config{TTL: time.Second, MaxTTL: time.Second}, target: &nemesis.Target{Locks: locks}, history: w, clients: []*clientSlot{slot}}
	if err := r.awaitGrants(ctx); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read("grants", &file.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	returned, outcomes := map[string]int64{}, map[string]history.Outcome{}
	for _, op := range h.Ops {
		returned[op.Lock], outcomes[op.Lock] = op.Return, op.Outcome
	}
	if want := map[string]history.Outcome{"stuck": history.Failed, "a": history.OK, "b": history.OK}; !maps.Equal(outcomes, want) {
		t.Errorf("%v, want %v", outcomes, want)
	}
	if max(returned["a"], returned["b"]) > returned["stuck"] {
		t.Errorf("a and b wait for the stuck lock: %v", returned)
	}
}
