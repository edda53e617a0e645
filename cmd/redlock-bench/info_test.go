// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestCommandCalls(t *testing.T) {
	const info = "# Commandstats\r\ncmdstat_evalsha:calls=42,usec=7,usec_per_call=0.1\r\ncmdstat_client|id:calls=3,usec=1\r\n"
	for name, want := range map[string]int64{"evalsha": 42, "eval": 0, "client|id": 3} {
		if got := commandCalls(info, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// What a script calls must not be counted, what a client sends must.
func TestCommands_script_countedOnce(t *testing.T) {
	s := start(t, localredis.Config{})
	b := newBackend(ownServers, 1)
	must(t, b.connect([]string{s.URL()}))
	defer b.close()
	ctx := context.Background()
	before, ok := b.commands(ctx)
	if !ok || before != 0 {
		t.Fatalf("%d commands on a new master, %v", before, ok)
	}
	for range 3 {
		must(t, b.admins[0].Eval(ctx, "redis.call('set', 'a', 1); redis.call('publish', 'b', 1); return 1", nil).Err())
	}
	sub := b.admins[0].Subscribe(ctx, "b")
	defer sub.Close()
	_, err := sub.Receive(ctx)
	must(t, err)
	if n, _ := b.commands(ctx); n != 4 {
		t.Errorf("%d commands, want 4: three EVAL and one SUBSCRIBE", n)
	}
}

func TestMastersCPU_work_costsTime(t *testing.T) {
	s := start(t, localredis.Config{})
	b := newBackend(ownServers, 1)
	must(t, b.connect([]string{s.URL()}))
	defer b.close()
	ctx := context.Background()
	before, ok := b.mastersCPU(ctx)
	must(t, b.admins[0].Eval(ctx, "local n = 0; for i = 1, 2000000 do n = n + i end; return 1", nil).Err())
	after, okAfter := b.mastersCPU(ctx)
	if !ok || !okAfter || after-before < time.Millisecond || after-before > 10*time.Second {
		t.Errorf("two million additions cost the master %v (%v, %v)", after-before, ok, okAfter)
	}
}

// pairing is a pair that costs nothing.
type pairing struct{}

func (pairing) pair(context.Context) error { return nil }

// A master that did not answer once has no sum over all turns, and the table has n/a.
func TestSlice_mastersSilentOnce_theirTimeIsNotAvailable(t *testing.T) {
	m := start(t, localredis.Config{})
	b := newBackend(ownServers, 1)
	must(t, b.connect([]string{m.URL()}))
	defer b.close()
	s := newSide([]pairer{pairing{}})
	for turn, silent := range []bool{false, false, true, false} {
		if silent {
			must(t, b.admins[0].Close())
		}
		s.slice(context.Background(), b, 5*time.Millisecond)
		if got := s.figures().MastersCPU; (got != nil) != (turn < 2) {
			t.Errorf("turn %d: the masters' time is %s", turn, optional(got))
		}
		if silent {
			b.admins[0] = redis.NewClient(b.options[0])
		}
	}
}

func TestRecord_longTime_keptAsTheLongest(t *testing.T) {
	h := newHistogram()
	record(h, 1000*time.Hour)
	if got := time.Duration(h.Max()); got < longestTime {
		t.Errorf("1000 hours are recorded as %v", got)
	}
}
