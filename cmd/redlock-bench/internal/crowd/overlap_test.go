// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func w(from, to time.Duration) span { return span{From: from, To: to} }
func r(from, to time.Duration) span { return span{From: from, To: to, Read: true} }

func TestOverlaps(t *testing.T) {
	for name, tc := range map[string]struct {
		spans []span
		want  int
	}{
		"none":                             {nil, 0},
		"one":                              {[]span{w(5, 9)}, 0},
		"apart, in any order":              {[]span{w(20, 30), w(0, 10)}, 0},
		"one begins when the other ends":   {[]span{w(10, 20), w(0, 10)}, 0},
		"one begins just before":           {[]span{w(9, 20), w(0, 10)}, 1},
		"the same":                         {[]span{w(0, 10), w(0, 10)}, 1},
		"one inside":                       {[]span{w(0, 10), w(4, 5)}, 1},
		"a moment inside":                  {[]span{w(0, 10), w(4, 4)}, 1},
		"over before it began":             {[]span{w(0, 100), w(50, 40)}, 0},
		"a moment at the end":              {[]span{w(0, 10), w(10, 10)}, 0},
		"inside a long one after a short":  {[]span{w(0, 100), w(1, 2), w(50, 60)}, 2},
		"three at once":                    {[]span{w(0, 10), w(1, 11), w(2, 12)}, 2},
		"the first starts the clock below": {[]span{w(-5, 1), w(0, 2)}, 1},
		"readers share":                    {[]span{r(0, 10), r(5, 15), r(5, 15)}, 0},
		"a reader while one writes":        {[]span{w(0, 10), r(9, 15)}, 1},
		"a writer while one reads":         {[]span{r(0, 10), w(9, 15)}, 1},
		"a writer after the first reader":  {[]span{r(0, 10), r(0, 5), w(7, 8)}, 1},
		"a reader behind a short reader":   {[]span{w(0, 100), r(1, 2), r(50, 60)}, 2},
		"readers, a writer, readers":       {[]span{r(0, 10), r(2, 9), w(10, 20), r(20, 21), r(20, 22)}, 0},
	} {
		if got := overlaps(tc.spans); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// The sweep against the definition, pair by pair.
func TestOverlaps_random_asByDefinition(t *testing.T) {
	replay.Each(t, overlapsAsByDefinition)
}

func overlapsAsByDefinition(t *testing.T, seed uint64) {
	random := replay.RNG(seed)
	for range 4000 {
		spans := make([]span, random.IntN(8))
		for i := range spans {
			from := time.Duration(random.IntN(40))
			spans[i] = span{From: from, To: from + 1 + time.Duration(random.IntN(6)), Read: random.IntN(2) == 0}
		}
		want := false
		for i, a := range spans {
			for _, b := range spans[:i] {
				want = want || !(a.Read && b.Read) && a.From < b.To && b.From < a.To
			}
		}
		if got := overlaps(spans) > 0; got != want {
			t.Fatalf("seed %d: %v: %v, want %v", seed, spans, got, want)
		}
	}
}

func TestTogether(t *testing.T) {
	for want, spans := range [][]span{
		{w(0, 10), w(0, 10)},
		{r(0, 10), r(10, 20), w(0, 20)},
		{r(0, 10), r(20, 30), r(25, 26)},
		{r(0, 10), r(0, 10), r(9, 12), r(10, 11)},
		{r(0, 10), r(0, 10), r(0, 10), r(0, 10), r(20, -1)},
	} {
		if got := together(spans); got != want {
			t.Errorf("%v: %d, want %d", spans, got, want)
		}
	}
}

// fakeLock lets so many in at once.
type fakeLock struct {
	places chan struct{}
	valid  time.Duration // of a lease; 0: for long
	taken  atomic.Int32
	enough func() // called when it was taken often
}

func newFake(places int, valid time.Duration) *fakeLock {
	return &fakeLock{places: make(chan struct{}, places), valid: valid}
}

func (f *fakeLock) lock(ctx context.Context) (held, error) {
	select {
	case f.places <- struct{}{}:
		if f.taken.Add(1) == 200 {
			f.enough()
		}
		return &fakeLease{f, time.Now()}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type fakeLease struct {
	f    *fakeLock
	from time.Time
}

func (l *fakeLease) ValidUntil() time.Time {
	if l.f.valid == 0 {
		return l.from.Add(time.Hour)
	}
	return l.from.Add(l.f.valid)
}

func (l *fakeLease) Unlock(context.Context) error {
	<-l.f.places
	return nil
}

// pressFake lets waiters take the lock until it was taken often, for d at the most.
func pressFake(f *fakeLock, waiters int, d time.Duration) *results.ContentionCell {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.enough = cancel
	lockers := make([]locker, waiters)
	for i := range lockers {
		lockers[i] = f
	}
	c := newCrowd(lockers, 200*time.Microsecond)
	saw, _ := c.Press(ctx, d)
	return NewCell(saw, c.hold, time.Millisecond)
}

func TestCrowd_lockLetsTwoIn_overlaps(t *testing.T) {
	if cell := pressFake(newFake(2, 0), 4, time.Minute); cell.Overlaps == 0 || cell.Acquired == 0 {
		t.Errorf("a lock with two places: %+v", cell)
	}
}

func TestCrowd_lockHolds_noOverlap(t *testing.T) {
	cell := pressFake(newFake(1, 0), 4, time.Minute)
	if cell.Overlaps != 0 || cell.Acquired == 0 || cell.Errors != 0 {
		t.Errorf("a lock with one place: %+v", cell)
	}
	if cell.WaitP50 <= 0 || cell.WaitMax < cell.WaitP99 || cell.WaitP99 < cell.WaitP50 {
		t.Errorf("waits %v, %v, %v", cell.WaitP50, cell.WaitP99, cell.WaitMax)
	}
}

// A holder that outlives its lease was told; what comes after is no overlap.
func TestCrowd_validityOver_spanEndsThere(t *testing.T) {
	if cell := pressFake(newFake(2, time.Nanosecond), 2, time.Minute); cell.Overlaps != 0 || cell.Acquired < 2 {
		t.Errorf("leases of a nanosecond: %+v", cell)
	}
}

// Who never gets the lock must show in the longest wait.
func TestCrowd_starved_waitCounted(t *testing.T) {
	stall.Try(t, 5*time.Millisecond, func(t testing.TB) { // a waiter may begin later than the run
		f := newFake(1, 0)
		f.places <- struct{}{} // taken for good
		cell := pressFake(f, 2, 50*time.Millisecond)
		if cell.Acquired != 0 || cell.WaitMax < 45_000 {
			t.Errorf("%d acquired, longest wait %v us; want none and all of the run", cell.Acquired, cell.WaitMax)
		}
	})
}

type brokenLock struct{ tried func() }

func (b brokenLock) lock(context.Context) (held, error) {
	b.tried()
	return nil, fmt.Errorf("broken")
}

func TestCrowd_lockFails_errorsCounted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	c := newCrowd([]locker{brokenLock{func() {
		if tries++; tries == 2 { // an error of a run that has ended is none
			cancel()
		}
	}}}, 0)
	saw, _ := c.Press(ctx, time.Minute)
	if cell := NewCell(saw, 0, 0); cell.Errors == 0 || cell.FirstErr == nil {
		t.Errorf("%+v", cell)
	}
}
