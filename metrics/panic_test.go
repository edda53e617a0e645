// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Config.Class panics at a name: it is not called any more, one client logs it, and the metrics go on.
func TestClass_panics_isSwitchedOffAndLoggedOnce(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	m := metrics.New(metrics.Config{Class: func(name string) string {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return strings.Split(name, "/")[1] // as it is: the name has no slash
	}})
	var out bytes.Buffer
	logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&out, nil)))
	a, masters := redlocktest.New(t, logger, redlock.WithObserver(m.Observer()))
	b := masters.Client() // with the same options
	for range 3 {
		for _, c := range []*redlock.Client{a, b} {
			l, err := c.Mutex("noslash").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	want(t, m, map[string]float64{
		"redlock_panics_total{}":                             1,
		"redlock_acquires_total{class=other,result=granted}": 6,
		"redlock_unlocks_total{class=other,result=released}": 6,
		"redlock_leases_held{class=other}":                   0,
	})
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "function=metrics.Config.Class") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("the log:\n%s", got)
	}
	if calls != 1 {
		t.Errorf("called %d times", calls)
	}
}
