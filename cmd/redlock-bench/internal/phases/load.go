// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/termline"
)

// Words of the JSON: the phases.
const (
	Before   = "before"
	Killed   = "killed"
	Returned = "returned"
	Frozen   = "frozen"
	After    = "after"
)

const (
	TurnTime   = 250 * time.Millisecond // load is measured in turns
	sampleTime = 20 * time.Millisecond  // of goroutines
	settleTime = 500 * time.Millisecond // of load before it is measured, and after the first vote of the returned master
)

// Load is callers that work through the phases.
type Load struct {
	Pairers  []pairs.Pairer
	Cells    []*results.PhaseCell
	began    time.Time // the first phase
	Progress *termline.Line
	Row      func(*results.PhaseCell) // is told of each
}

// phase lets all callers work for d, or until done is closed, and reports what was measured. Its error is that of ctx, or says that not one
// lock could be taken while all masters answered.
func (l *Load) phase(ctx context.Context, name string, d time.Duration, done <-chan struct{}) error {
	s := pairs.NewSide(l.Pairers)
	g := sampleGoroutines()
	began := time.Now()
	if len(l.Cells) == 0 {
		l.began = began
	}
	for time.Since(began) < d && ctx.Err() == nil && !closed(done) {
		l.Progress.Show("outage, %s: %v", name, time.Since(began).Round(TurnTime))
		s.Work(ctx, min(TurnTime, max(d-time.Since(began), time.Millisecond)))
	}
	cell := newPhaseCell(name, s)
	cell.At = began.Sub(l.began).Seconds()
	cell.Goroutines = g.stop()
	var err error
	if ctx.Err() != nil || cell.Pairs == 0 && len(l.Cells) == 0 {
		err = s.Failure(ctx)
	}
	s = nil // with its histograms, which are larger than all else
	cell.Heap = liveHeap()
	l.Cells = append(l.Cells, cell)
	l.Progress.Clear()
	l.Row(cell)
	return err
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch: // a nil one blocks
		return true
	default:
		return false
	}
}

// liveHeap is what a garbage collection leaves.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // the first only marks what sync.Pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// goroutineSampler counts goroutines while others work.
type goroutineSampler struct {
	quit, ended chan struct{}
	seen        []int
}

func sampleGoroutines() *goroutineSampler {
	g := &goroutineSampler{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		tick := time.NewTicker(sampleTime)
		defer tick.Stop()
		for {
			select {
			case <-g.quit:
				return
			case <-tick.C:
				g.seen = append(g.seen, runtime.NumGoroutine())
			}
		}
	}()
	return g
}

// stop returns the median of the later half of what was seen: a leak is largest there.
func (g *goroutineSampler) stop() int {
	close(g.quit)
	<-g.ended
	late := g.seen[len(g.seen)/2:]
	if len(late) == 0 {
		return 0
	}
	slices.Sort(late)
	return late[len(late)/2]
}
