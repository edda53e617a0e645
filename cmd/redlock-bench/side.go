// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock/internal/testbed"
)

// pairer acquires and releases one lock once. The product and the floor are both measured through it, by the same code.
type pairer interface {
	pair(ctx context.Context) error
}

// side is the product or the floor in one cell: what it was measured to do, slice by slice.
type side struct {
	callers []*caller
	elapsed time.Duration
	cpu     cpuTime
	rates   []float64 // pairs per second of each slice
}

func newSide(pairers []pairer) *side {
	s := &side{}
	for _, p := range pairers {
		s.callers = append(s.callers, &caller{pairer: p, took: newHistogram()})
	}
	return s
}

// slice is work that also asks the masters for their CPU time.
func (s *side) slice(ctx context.Context, b *backend, d time.Duration) {
	// The masters' time is read outside the process's: asking costs us CPU too.
	first := len(s.rates) == 0
	before, ok := b.mastersCPU(ctx)
	s.work(ctx, d)
	after, okAfter := b.mastersCPU(ctx)
	// Where one slice is not known, nobody can say what all pairs cost.
	if s.cpu.ok = ok && okAfter && (first || s.cpu.ok); s.cpu.ok {
		s.cpu.masters += after - before
	}
}

// work lets all callers work for d, or until ctx ends.
func (s *side) work(ctx context.Context, d time.Duration) {
	pairs, cpu := s.pairs(), testbed.Own()
	begin := time.Now()
	var wg sync.WaitGroup
	for _, c := range s.callers {
		wg.Go(func() { c.work(ctx, begin.Add(d)) })
	}
	wg.Wait()
	elapsed := time.Since(begin)
	s.cpu.process += testbed.Own() - cpu
	s.elapsed += elapsed
	s.rates = append(s.rates, float64(s.pairs()-pairs)/elapsed.Seconds())
}

func (s *side) pairs() (n int64) {
	for _, c := range s.callers {
		n += c.took.TotalCount()
	}
	return n
}

// caller is one goroutine that acquires and releases its own lock again and again.
type caller struct {
	pairer
	took   *hdrhistogram.Histogram // of the pairs that succeeded
	errors int
	err    error // the first
}

func (c *caller) work(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithCancel(ctx) // each its own, as a server's requests have
	defer cancel()
	for now := time.Now(); now.Before(until); {
		err := c.pair(ctx)
		end := time.Now()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			record(c.took, end.Sub(now))
		} else if c.errors++; c.err == nil {
			c.err = err
		}
		now = end
	}
}

// longestTime is the longest that is told apart: a day.
const longestTime = 24 * time.Hour

// newHistogram holds times of 64 ns to longestTime with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(64, int64(longestTime), 3) }

// record notes a time, one above the histogram's range as its maximum.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(int64(d), int64(longestTime)))
}
