// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// byKind is the part of a name before the first slash.
func byKind(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// read returns the values of all series, as "name{label=value,..}": a counter's or gauge's value, and
// how many observations a histogram has.
func read(t testing.TB, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, s := range f.Metric {
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				values[name] = float64(s.Histogram.GetSampleCount())
			case dto.MetricType_GAUGE:
				values[name] = s.Gauge.GetValue()
			default:
				values[name] = s.Counter.GetValue()
			}
		}
	}
	return values
}

func want(t *testing.T, m *metrics.Metrics, want map[string]float64) {
	t.Helper()
	got := read(t, m)
	for name, v := range want {
		if have, ok := got[name]; !ok || have != v {
			t.Errorf("%s is %v (there: %v), want %v", name, have, ok, v)
		}
	}
	if t.Failed() {
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for n := range got {
				if !yield(n) {
					return
				}
			}
		}) {
			t.Logf("%s %v", name, got[name])
		}
	}
}

// A day with a wait, a lost lease, a master that dies and one that recovers.
func TestMetrics_aBadDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Config{Class: byKind})
		mine, masters := redlocktest.New(t)
		_ = mine.Close()
		c := masters.Client(redlock.WithObserver(m.Observer()))
		ctx := t.Context()
		held := masters.Hold("orders/1")
		if _, err := c.Mutex("orders/1").TryLock(ctx); !errors.Is(err, redlock.ErrHeld) {
			t.Error(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.Mutex("orders/1").Do(ctx, func(context.Context, *redlock.Lease) error { time.Sleep(time.Second); return nil }); err != nil {
				t.Error(err)
			}
		})
		masters.AwaitWaiter("orders/1")
		want(t, m, map[string]float64{"redlock_waiters{class=orders}": 1})
		if err := held.Unlock(ctx); err != nil {
			t.Error(err)
		}
		wg.Wait()
		wg.Go(func() {
			_ = c.Mutex("report").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error { <-ctx.Done(); return nil })
		})
		masters.Lose("report")
		wg.Wait()
		masters.Outage(1)
		lease, err := c.Mutex("report").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		want(t, m, map[string]float64{
			"redlock_acquires_total{class=orders,result=held}":         1,
			"redlock_acquires_total{class=orders,result=granted}":      1,
			"redlock_acquires_total{class=report,result=granted}":      2,
			"redlock_wait_seconds{class=orders,result=granted}":        1,
			"redlock_wait_seconds{class=orders,result=failed}":         1,
			"redlock_waiters{class=orders}":                            0,
			"redlock_leases_held{class=orders}":                        0,
			"redlock_leases_held{class=report}":                        1,
			"redlock_hold_seconds{class=orders}":                       1,
			"redlock_acquire_rounds{class=report}":                     2,
			"redlock_leases_lost_total{cause=votes_gone,class=report}": 1,
			"redlock_leases_lost_total{cause=expired,class=report}":    0,
			"redlock_unlocks_total{class=orders,result=released}":      1,
			"redlock_unlocks_total{class=report,result=lost}":          1,
			"redlock_extends_total{class=report,result=lost}":          1,
			"redlock_extends_total{class=report,result=confirmed}":     1,
			"redlock_validity_left_seconds{at=extend,class=report}":    1,
			"redlock_validity_left_seconds{at=unlock,class=orders}":    1,
			"redlock_master_state{master=m1,state=down}":               1,
			"redlock_master_state{master=m1,state=votes}":              0,
			"redlock_master_state{master=m2,state=votes}":              1,
			"redlock_votes_total{master=m2,outcome=silent}":            0,
			"redlock_dropped_releases_total{}":                         0,
		})
		if v := read(t, m); v["redlock_votes_total{master=m2,outcome=granted}"] < 2 || v["redlock_epoch{}"] == 0 || v["redlock_rounds_total{}"] < 3 {
			t.Errorf("%v", v)
		}
		if v, there := read(t, m)["redlock_master_state{master=m1,state=unknown}"]; there {
			t.Errorf("%v masters are in no state", v)
		}
		masters.Heal()
		if err := lease.Unlock(ctx); err != nil {
			t.Error(err)
		}
		before := read(t, m)
		_ = c.Close()
		after := read(t, m)
		for name, v := range before {
			if after[name] < v && strings.Contains(name, "_total") {
				t.Errorf("%s went from %v to %v", name, v, after[name])
			}
		}
		for name := range after {
			if strings.HasPrefix(name, "redlock_master_state") {
				t.Errorf("%s is there, and no client sees that master", name)
			}
		}
		want(t, m, map[string]float64{"redlock_leases_held{class=report}": 0})
	})
}

// Two clients of one process are summed up.
func TestMetrics_twoClients_areSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Config{})
		a, masters := redlocktest.New(t, redlock.WithObserver(m.Observer()))
		b := masters.Client()
		for i, c := range []*redlock.Client{a, b} {
			if _, err := c.Mutex(fmt.Sprint(i)).Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		want(t, m, map[string]float64{"redlock_leases_held{class=default}": 2, "redlock_master_state{master=m3,state=votes}": 2, "redlock_rounds_total{}": 2})
		_ = b.Close()
		want(t, m, map[string]float64{"redlock_leases_held{class=default}": 1, "redlock_master_state{master=m3,state=votes}": 1, "redlock_rounds_total{}": 2})
	})
}

// A counter is there with 0 before it counts. Prometheus does not see one that begins with 1.
func TestMetrics_counters_beginWith0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Config{})
		_, _ = redlocktest.New(t, redlock.WithObserver(m.Observer()))
		synctest.Wait()
		want(t, m, map[string]float64{
			"redlock_clock_jumps_total{master=}": 0, "redlock_clock_jumps_total{master=m1}": 0,
			"redlock_acquires_total{class=default,result=unreachable}":  0,
			"redlock_leases_lost_total{cause=expired,class=default}":    0,
			"redlock_votes_total{master=m1,outcome=refused}":            0,
			"redlock_dropped_releases_total{}":                          0,
			"redlock_extends_total{class=default,result=unreachable}":   0,
			"redlock_extends_total{class=default,result=lost}":          0,
			"redlock_unlocks_total{class=default,result=unconfirmed}":   0,
			"redlock_unlocks_total{class=default,result=lost}":          0,
			"redlock_acquires_total{class=default,result=granted}":      0,
			"redlock_leases_lost_total{cause=votes_gone,class=default}": 0,
		})
	})
}

func TestMetrics_classes_areBounded(t *testing.T) {
	m := metrics.New(metrics.Config{Class: func(name string) string { return name }, MaxClasses: 2})
	o := m.Observer()
	for _, name := range []string{"a", "b\xff", "c", "d", "a", "other"} {
		o.Acquired(t.Context(), event.Acquire{Lock: name, Token: 1})
	}
	want(t, m, map[string]float64{
		"redlock_acquires_total{class=a,result=granted}":     2,
		"redlock_acquires_total{class=b?,result=granted}":    1,
		"redlock_acquires_total{class=other,result=granted}": 3,
	})
}

// The result of each error that the library documents has its label.
func TestMetrics_results_haveLabels(t *testing.T) {
	m := metrics.New(metrics.Config{})
	o := m.Observer()
	for err, label := range map[error]string{
		redlock.ErrHeld: "held", redlock.ErrUnreachable: "unreachable", redlock.ErrRecovering: "recovering", redlock.ErrRefused: "refused",
		redlock.ErrClosed: "closed", context.Canceled: "gave_up", context.DeadlineExceeded: "gave_up", errors.New("else"): "error",
	} {
		name := "redlock_acquires_total{class=default,result=" + label + "}"
		before := read(t, m)[name]
		o.Acquired(t.Context(), event.Acquire{Lock: "x", Err: fmt.Errorf("it is so: %w", err)})
		want(t, m, map[string]float64{name: before + 1})
	}
}

// BenchmarkObserver is what the metrics of one lock over five masters cost, without the lock.
func BenchmarkObserver(b *testing.B) {
	m := metrics.New(metrics.Config{Class: byKind})
	o := m.Observer()
	masters := []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"}
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			for _, master := range masters {
				o.Voted(event.Vote{Master: master, Lock: "orders/1", Answer: event.VoteGranted})
			}
			o.Acquired(ctx, event.Acquire{Lock: "orders/1", Took: time.Millisecond, Rounds: 1, Token: 1, Validity: 9 * time.Second})
			o.Ended(event.End{Lock: "orders/1", Held: time.Millisecond, Left: 9 * time.Second})
			o.Unlocked(ctx, event.Unlock{Lock: "orders/1", Took: time.Millisecond})
		}
	})
}

// BenchmarkOverhead takes locks on five real masters with and without metrics in turns, and reports
// how much more processor time of this process a lock takes with them: the median of all turns.
func BenchmarkOverhead(b *testing.B) {
	needs.Redis(b)
	servers, err := localredis.StartN(context.Background(), 5, localredis.Config{})
	if err != nil {
		b.Fatal(err)
	}
	var urls []string
	for _, s := range servers {
		defer s.Close()
		urls = append(urls, s.URL())
	}
	m := metrics.New(metrics.Config{Class: byKind})
	var clients [2]*redlock.Client
	for i, opts := range [][]redlock.Option{nil, {redlock.WithObserver(m.Observer())}} {
		opts = append(opts, redlock.WithUnsafeRecoveryOff(), redlock.WithNodeTimeout(2*time.Second), redlock.WithTTL(30*time.Second))
		if clients[i], err = redlock.Open(b.Context(), urls, opts...); err != nil {
			b.Fatal(err)
		}
		defer clients[i].Close()
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			batch := func(c *redlock.Client) time.Duration {
				start := processorTime()
				var wg sync.WaitGroup
				for w := range callers {
					wg.Go(func() {
						l := c.Mutex(fmt.Sprintf("orders/%d", w))
						for range 1 + 200/callers {
							if err := l.Do(b.Context(), func(context.Context, *redlock.Lease) error { return nil }); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				return processorTime() - start
			}
			batch(clients[0])
			batch(clients[1])
			var ratios []float64
			for b.Loop() {
				var took [2]time.Duration
				for k := range 2 {
					i := (k + len(ratios)) % 2 // each is first as often as the other
					took[i] = batch(clients[i])
				}
				ratios = append(ratios, float64(took[1])/float64(took[0]))
			}
			slices.Sort(ratios)
			b.ReportMetric(100*(ratios[len(ratios)/2]-1), "%more-cpu")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
