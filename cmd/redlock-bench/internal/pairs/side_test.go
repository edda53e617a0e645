// SPDX-License-Identifier: Apache-2.0

package pairs

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/text"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pairing is a pair that costs nothing.
type pairing struct{}

func (pairing) Pair(context.Context) error { return nil }

// A master that did not answer once has no sum over all turns, and the table has n/a.
func TestSlice_mastersSilentOnce_theirTimeIsNotAvailable(t *testing.T) {
	needs.Redis(t)
	b, err := masters.OpenOwn(context.Background(), 1, localredis.Config{}, "")
	must(t, err)
	t.Cleanup(b.Close)
	s := NewSide([]Pairer{pairing{}})
	for turn, silent := range []bool{false, false, true, false} {
		if silent {
			must(t, b.Admins[0].Close())
		}
		s.Slice(context.Background(), b, 5*time.Millisecond)
		if got := s.Figures().MastersCPU; (got != nil) != (turn < 2) {
			t.Errorf("turn %d: the masters' time is %s", turn, text.Optional(got))
		}
		if silent {
			b.Admins[0] = redis.NewClient(b.Options[0])
		}
	}
}

func TestRecord_longTime_keptAsTheLongest(t *testing.T) {
	h := NewHistogram()
	Record(h, 1000*time.Hour)
	if got := time.Duration(h.Max()); got < longestTime {
		t.Errorf("1000 hours are recorded as %v", got)
	}
}

// sideOf is a side that was measured for two turns of a second: pairs of took each, and the CPU for them.
func sideOf(took time.Duration, first, second int, cpu cpuTime) *Side {
	s := NewSide([]Pairer{nil})
	for range first + second {
		Record(s.callers[0].took, took)
	}
	s.Elapsed, s.cpu = 2*time.Second, cpu
	s.Rates = []float64{float64(first), float64(second)}
	return s
}

func TestNewLatencyCell_arithmetic(t *testing.T) {
	lock := sideOf(2*time.Millisecond, 30, 50, cpuTime{80 * time.Millisecond, 160 * time.Millisecond, true})
	floor := sideOf(time.Millisecond, 50, 50, cpuTime{50 * time.Millisecond, 50 * time.Millisecond, true})
	c := NewLatencyCell([]*Side{lock, floor})
	for what, tc := range map[string]struct{ got, want float64 }{
		"pairs/s":             {c.PairsPerSecond, 40},
		"cpu of a pair":       {c.CPU, 1000},
		"masters' cpu":        {*c.MastersCPU, 2000},
		"floor's cpu":         {c.Floor.CPU, 500},
		"ratio of pairs/s":    {c.Ratio.PairsPerSecond, 0.8},
		"its first quartile":  {c.Ratio.Low, 0.6},
		"its median":          {c.Ratio.Median, 1}, // of two, the upper one
		"its third quartile":  {c.Ratio.High, 1},
		"ratio of cpu":        {c.Ratio.CPU, 2},
		"ratio of masters' c": {*c.Ratio.MastersCPU, 4},
	} {
		if math.Abs(tc.got-tc.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
	for what, tc := range map[string]struct{ got, want float64 }{
		"p50": {c.P50, 2000}, "max": {c.Max, 2000}, "floor's p50": {c.Floor.P50, 1000}, "ratio of p50": {c.Ratio.P50, 2},
	} {
		if math.Abs(tc.got/tc.want-1) > 2e-3 { // three digits
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
}

// A turn in which the floor did nothing, on a machine that stood still.
func TestNewLatencyCell_floorIdleInATurn_validJSON(t *testing.T) {
	c := NewLatencyCell([]*Side{sideOf(time.Millisecond, 5, 5, cpuTime{}), sideOf(time.Millisecond, 0, 5, cpuTime{})})
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
