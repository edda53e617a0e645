// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mb = 1 << 20

// stuck is a lock that cannot be had.
type stuck struct{ tried func() }

func (s stuck) Pair(context.Context) error {
	s.tried()
	return errors.New("stuck")
}

func TestLoad_notOneLock_anErrorOnlyWhereAllIsWell(t *testing.T) {
	l := &Load{Progress: &termline.Line{}, Row: func(*results.PhaseCell) {}}
	phase := func(name string) error { // it ends when somebody has tried
		tried := make(chan struct{})
		l.Pairers = []pairs.Pairer{stuck{sync.OnceFunc(func() { close(tried) })}}
		return l.phase(t.Context(), name, time.Minute, tried)
	}
	if err := phase(Before); err == nil || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("before: %v", err)
	}
	if err := phase(Killed); err != nil {
		t.Errorf("killed: %v", err)
	}
	if c := l.Cells[1]; c.Pairs != 0 || c.Errors == 0 || c.Heap == 0 {
		t.Errorf("%+v", c)
	}
	if _, err := json.Marshal(l.Cells); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.phase(ctx, After, time.Millisecond, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestGoroutineSampler_more_seen(t *testing.T) {
	stall.Try(t, sampleTime, moreGoroutines)
}

func moreGoroutines(t testing.TB) {
	before := sampleGoroutines()
	time.Sleep(3 * sampleTime)
	least := before.stop()
	g := sampleGoroutines()
	quit := make(chan struct{})
	for range 50 {
		go func() { <-quit }()
	}
	time.Sleep(5 * sampleTime)
	if got := g.stop(); got < least+45 {
		t.Errorf("%d goroutines, and then 50 more are %d", least, got)
	}
	close(quit)
}

func TestLiveHeap_garbage_notCounted(t *testing.T) {
	before := liveHeap()
	kept := make([]byte, 20*mb)
	if got := liveHeap(); got < before+19*mb {
		t.Errorf("%d bytes, and with 20 MB more %d", before, got)
	}
	_ = append(kept[:0], 1)
	kept = nil
	_ = kept
	if got := liveHeap(); got > before+mb {
		t.Errorf("%d bytes, and after 20 MB of garbage %d", before, got)
	}
}

// Only a record that lets this life of the master vote counts, and then only a key of the locks.
func TestComeback_look(t *testing.T) {
	needs.Redis(t)
	b, err := masters.OpenOwn(context.Background(), 1, localredis.Config{}, "")
	must(t, err)
	t.Cleanup(b.Close)
	ctx, names := t.Context(), pairs.LockNames(b.Prefix, 3)
	c := &comeback{server: b.Servers[0], admin: b.Admins[0], names: names}
	incarnation, err := c.incarnation(ctx)
	must(t, err)
	voting := membership.RecordState{Epoch: membership.Epoch{Number: 1, ID: 0xe}, Incarnation: incarnation, Phase: membership.Voting}
	recovering, another := voting, voting
	recovering.Phase, recovering.Nonce = membership.Quarantined, 5
	another.Incarnation = "another"
	expect := func(what string, wantVotes bool, wantKeys int64) {
		t.Helper()
		if votes, keys, err := c.look(ctx, incarnation); votes != wantVotes || keys != wantKeys || err != nil {
			t.Errorf("%s: %v, %d keys, %v", what, votes, keys, err)
		}
	}
	expect("no record", false, 0)
	for what, rs := range map[string]membership.RecordState{"recovering": recovering, "another life": another} {
		must(t, c.admin.HSet(ctx, protocol.RecordKey, "state", rs.String()).Err())
		expect(what, false, 0)
	}
	must(t, c.admin.HSet(ctx, protocol.RecordKey, "state", voting.String()).Err())
	must(t, c.admin.HSet(ctx, "another's lock", "h", 1).Err())
	expect("no key of ours", true, 0)
	must(t, c.admin.HSet(ctx, names[2], "h", 1).Err())
	expect("a vote", true, 1)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
