// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

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
