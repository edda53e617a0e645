// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/redlocktest"
)

// Config.Class panics at a name: it is not called any more, one client logs it, and the metrics go on. A lease
// and a waiter of before are of the class "other" then.
func TestClass_panics_isSwitchedOffAndLoggedOnce(t *testing.T) {
	var calls atomic.Int32 // since the panic
	m := metrics.New(metrics.Config{Class: func(name string) string {
		slash := strings.Index(name, "/")
		if slash < 0 || calls.Load() > 0 {
			calls.Add(1)
		}
		return name[:slash] // as it is: the name has no slash
	}})
	var out bytes.Buffer
	logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&out, nil)))
	waits := make(chan struct{})
	waiting := &event.Observer{Waits: func(_ context.Context, e event.Wait) {
		if e.First && e.Lock == "orders/1" {
			close(waits)
		}
	}}
	a, masters := redlocktest.New(t, logger, redlock.WithObserver(m.Observer()), redlock.WithObserver(waiting))
	b := masters.Client() // with the same options
	lock := func(c *redlock.Client, name string) *redlock.Lease {
		l, err := c.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		return l
	}
	held := lock(a, "orders/1")
	got := make(chan *redlock.Lease)
	go func() { got <- lock(b, "orders/1") }()
	<-waits
	want(t, m, map[string]float64{"redlock_leases_held{class=orders}": 1, "redlock_waiters{class=orders}": 1})
	for range 3 {
		for _, c := range []*redlock.Client{a, b} {
			if err := lock(c, "noslash").Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	want(t, m, map[string]float64{
		"redlock_panics_total{}":                             1,
		"redlock_acquires_total{class=other,result=granted}": 6,
		"redlock_unlocks_total{class=other,result=released}": 6,
		"redlock_leases_held{class=orders}":                  0,
		"redlock_leases_held{class=other}":                   1,
		"redlock_waiters{class=orders}":                      0,
		"redlock_waiters{class=other}":                       1,
	})
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := (<-got).Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, m, map[string]float64{
		"redlock_leases_held{class=orders}": 0,
		"redlock_leases_held{class=other}":  0,
		"redlock_waiters{class=orders}":     0,
		"redlock_waiters{class=other}":      0,
	})
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "function=metrics.Config.Class") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("the log:\n%s", got)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("called %d times", n)
	}
}

func TestMetrics_notMadeByNew_countNothing(t *testing.T) {
	for name, m := range map[string]*metrics.Metrics{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			client, _ := redlocktest.New(t, redlock.WithObserver(m.Observer()))
			lease, err := client.Mutex("invoice/4711").TryLock(t.Context())
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			r := prometheus.NewRegistry()
			if err := r.Register(m); err != nil {
				t.Fatal(err)
			}
			if all, err := r.Gather(); err != nil || len(all) > 0 {
				t.Errorf("gathered %v, %v", all, err)
			}
		})
	}
}
