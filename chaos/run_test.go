// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/nemesis"
)

func parse(t *testing.T, s string, p cluster.Persistence) []nemesis.Nemesis {
	t.Helper()
	ns, err := nemesis.Parse(s, func(n nemesis.Nemesis) string { return n.Lacks(p) })
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// held does a run and fails on a violation. least is the fewest locks and faults that make it mean something.
func held(t *testing.T, cfg Config, least, faults int) *Result {
	t.Helper()
	t.Logf("seed %d", cfg.Seed)
	ctx, cancel := context.WithTimeout(t.Context(), cfg.Duration+2*time.Minute)
	defer cancel()
	t.Setenv("TMPDIR", t.TempDir())
	cfg.Out = t.Output()
	m := Minimums(cfg)
	m.Acquisitions, m.Tokens = least, least
	cfg.Min = &m
	var checks []check.Result
	cfg.Report = func(o Outcome) error { checks = o.Checks; return nil }
	res, err := Run(ctx, cfg)
	engine(t, err)
	if err != nil {
		t.Fatal(err)
	}
	j, _ := json.Marshal(res)
	t.Logf("%s", j)
	for _, v := range res.Violations {
		t.Errorf("%s: %s", v.Checker, v.Detail)
	}
	struck := 0
	for _, n := range res.Faults {
		struck += n
	}
	if struck < faults {
		t.Errorf("%d faults, want at least %d", struck, faults)
	}
	if len(checks) != 9 || res.Held() != check.Passed(checks) {
		t.Errorf("%d checks, passed %v, and the result says held %v", len(checks), check.Passed(checks), res.Held())
	}
	nothingLeft(t)
	return res
}

func nothingLeft(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestRun_processDriver_holds(t *testing.T) {
	held(t, Config{
		Driver: cluster.Process, Persistence: cluster.EverySec, Duration: 15 * time.Second, Seed: 1, AtOnce: 3,
		Nemeses: parse(t, "default", cluster.EverySec),
	}, 300, 20)
}

func TestRun_dockerDriver_holds(t *testing.T) {
	held(t, Config{
		Driver: cluster.Docker, Duration: 20 * time.Second, Seed: 2, Nemeses: parse(t, "N1,N4,N7,N8,N9,N10,N11,N17,N19,N20", cluster.None),
	}, 300, 10)
}

// Whatever a run breaks off with, nothing may stay.
func TestRun_interrupted_leavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	res, err := Run(ctx, Config{
		Driver: cluster.Process, Duration: time.Minute, Seed: 3, Nemeses: parse(t, "N1,N7,N8", cluster.None),
		Progress: func(Progress) {
			if seen++; seen == 5 {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || res != nil {
		t.Errorf("got %v, %v, want no result and the context's error", res, err)
	}
	nothingLeft(t)
}

// A run that did too little is no success.
func TestRun_tooLittle_fails(t *testing.T) {
	res, err := Run(t.Context(), Config{
		Driver: cluster.Process, Masters: 3, Clients: 2, Duration: time.Second, Seed: 4, Min: &check.Minimums{Acquisitions: 1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Violations) != 1 || res.Violations[0].Checker != "C8" {
		t.Errorf("violations %v, want one of C8", res.Violations)
	}
}
