// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/needs"
)

// A nemesis that hangs, and holds a master while it does, ends the run. What was recorded until then is judged, and the logs are there.
func TestRun_nemesisHangs_judgesWhatIsThere(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	t.Setenv("TMPDIR", t.TempDir())
	limit := hangTime
	hangTime = time.Second
	defer func() { hangTime = limit }()
	release := make(chan struct{})
	var held sync.WaitGroup
	var once sync.Once
	r := &run{began: time.Now()}
	cfg := Config{Driver: cluster.Process, Masters: 3, Clients: 2, Duration: 2 * time.Second, Seed: 3, Nemeses: parse(t, "kill-minority", cluster.None)}
	cfg.Progress = func(p Progress) {
		if p.Granted < 50 {
			return
		}
		once.Do(func() {
			for _, n := range r.target.Nodes {
				held.Go(func() {
					_ = n.Admin(context.Background(), func(context.Context, *redis.Client, int) error { <-release; return nil })
				})
			}
		})
	}
	r.cfg = cfg.withDefaults()
	type result struct {
		h   history.Source
		err error
	}
	done := make(chan result, 1)
	go func() {
		h, err := r.real(t.Context())
		done <- result{h, err}
	}()
	var got result
	select {
	case got = <-done:
	case <-time.After(time.Minute):
		t.Error("the run hangs with its nemesis")
	}
	close(release)
	held.Wait()
	if t.Failed() {
		got = <-done
	}
	if got.err != nil || got.h == nil {
		t.Fatalf("nothing to judge: %v", got.err)
	}
	why := ""
	for _, f := range got.h.Run().Findings {
		why += f.Detail
	}
	if !strings.Contains(why, "hangs") {
		t.Errorf("it says %q", why)
	}
	granted := 0
	for batch, err := range got.h.Batches(1000) {
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range batch.Ops {
			if op.Kind == history.KindLock && op.Outcome == history.OK {
				granted++
			}
		}
	}
	if granted < 50 || len(r.logs["n1"]) == 0 {
		t.Errorf("%d grants in the history, and a log of %d bytes", granted, len(r.logs["n1"]))
	}
	if err := r.remove(); err != nil {
		t.Error(err)
	}
	nothingLeft(t)
}
