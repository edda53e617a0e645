// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	needs.Redis(t)
	b := oneMaster(t)
	ctx := context.Background()
	before, ok := b.Commands(ctx)
	if !ok || before != 0 {
		t.Fatalf("%d commands on a new master, %v", before, ok)
	}
	for range 3 {
		must(t, b.Admins[0].Eval(ctx, "redis.call('set', 'a', 1); redis.call('publish', 'b', 1); return 1", nil).Err())
	}
	sub := b.Admins[0].Subscribe(ctx, "b")
	defer sub.Close()
	_, err := sub.Receive(ctx)
	must(t, err)
	if n, _ := b.Commands(ctx); n != 4 {
		t.Errorf("%d commands, want 4: three EVAL and one SUBSCRIBE", n)
	}
}

func TestMastersCPU_work_costsTime(t *testing.T) {
	needs.Redis(t)
	b := oneMaster(t)
	ctx := context.Background()
	before, ok := b.MastersCPU(ctx)
	must(t, b.Admins[0].Eval(ctx, "local n = 0; for i = 1, 2000000 do n = n + i end; return 1", nil).Err())
	after, okAfter := b.MastersCPU(ctx)
	if !ok || !okAfter || after-before < time.Millisecond || after-before > 10*time.Second {
		t.Errorf("two million additions cost the master %v (%v, %v)", after-before, ok, okAfter)
	}
}

// oneMaster starts a master.
func oneMaster(t testing.TB) *Backend {
	t.Helper()
	b, err := OpenOwn(context.Background(), 1, localredis.Config{}, "")
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
