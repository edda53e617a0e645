// SPDX-License-Identifier: Apache-2.0

// Package pairs measures acquire and release of locks that nobody else wants. Callers do nothing but that, each with a lock of its own. The product
// and the floor are both a Side, measured by the same code: what that costs is the same for both.
package pairs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/internal/floor"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/redlock"
)

// Pairer acquires and releases one lock once. The product and the floor are both measured through it, by the same code.
type Pairer interface {
	Pair(ctx context.Context) error
}

// Side is the product or the floor in one cell: what it was measured to do, slice by slice.
type Side struct {
	callers []*caller
	Elapsed time.Duration
	cpu     cpuTime
	Rates   []float64 // pairs per second of each slice
}

// cpuTime is CPU spent so far: by this process, and by all masters together. ok is false where a master did not tell, be it once.
type cpuTime struct {
	process, masters time.Duration
	ok               bool
}

// NewSide has a caller for each pairer.
func NewSide(pairers []Pairer) *Side {
	s := &Side{}
	for _, p := range pairers {
		s.callers = append(s.callers, &caller{Pairer: p, took: NewHistogram()})
	}
	return s
}

// Slice is work that also asks the masters for their CPU time.
func (s *Side) Slice(ctx context.Context, b *masters.Backend, d time.Duration) {
	// The masters' time is read outside the process's: asking costs us CPU too.
	first := len(s.Rates) == 0
	before, ok := b.MastersCPU(ctx)
	s.Work(ctx, d)
	after, okAfter := b.MastersCPU(ctx)
	// Where one slice is not known, nobody can say what all pairs cost.
	if s.cpu.ok = ok && okAfter && (first || s.cpu.ok); s.cpu.ok {
		s.cpu.masters += after - before
	}
}

// Work lets all callers work for d, or until ctx ends.
func (s *Side) Work(ctx context.Context, d time.Duration) {
	pairs, cpu := s.Pairs(), testbed.Own()
	begin := time.Now()
	var wg sync.WaitGroup
	for _, c := range s.callers {
		wg.Go(func() { c.work(ctx, begin.Add(d)) })
	}
	wg.Wait()
	elapsed := time.Since(begin)
	s.cpu.process += testbed.Own() - cpu
	s.Elapsed += elapsed
	s.Rates = append(s.Rates, float64(s.Pairs()-pairs)/elapsed.Seconds())
}

// Pairs is how many pairs succeeded.
func (s *Side) Pairs() (n int64) {
	for _, c := range s.callers {
		n += c.took.TotalCount()
	}
	return n
}

// caller is one goroutine that acquires and releases its own lock again and again.
type caller struct {
	Pairer
	took   *hdrhistogram.Histogram // of the pairs that succeeded
	errors int
	err    error // the first
}

func (c *caller) work(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithCancel(ctx) // each its own, as a server's requests have
	defer cancel()
	for now := time.Now(); now.Before(until); {
		err := c.Pair(ctx)
		end := time.Now()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			Record(c.took, end.Sub(now))
		} else if c.errors++; c.err == nil {
			c.err = err
		}
		now = end
	}
}

// longestTime is the longest that is told apart: a day.
const longestTime = 24 * time.Hour

// NewHistogram holds times of 64 ns to longestTime with three digits.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(64, int64(longestTime), 3) }

// Record notes a time, one above the histogram's range as its maximum.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(int64(d), int64(longestTime)))
}

// Failure is why there is not one pair.
func (s *Side) Failure(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := s.Errors()
	if err == nil {
		return errors.New("not one lock was taken, and nobody failed: there was no time for it; give --duration more")
	}
	return fmt.Errorf("not one lock could be taken: %w", err)
}

// Errors is how many pairs failed, and why the first did.
func (s *Side) Errors() (n int, first error) {
	for _, c := range s.callers {
		n += c.errors
		if first == nil {
			first = c.err
		}
	}
	return n, first
}

type lockPairer struct{ redlock.Locker }

func (l lockPairer) Pair(ctx context.Context) error {
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

// LockPairers are n locks of a client.
func LockPairers(client *redlock.Client, prefix string, n int) []Pairer {
	ps := make([]Pairer, n)
	for i, name := range LockNames(prefix, n) {
		ps[i] = lockPairer{client.Mutex(name)}
	}
	return ps
}

type floorPairer struct{ *floor.Caller }

func (f floorPairer) Pair(context.Context) error { return f.Caller.Pair() }

// LockNames are the names of the locks that LockPairers takes.
func LockNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%slock:%d", prefix, i)
	}
	return names
}

// FloorPairers are n callers of the floor.
func FloorPairers(f *floor.Floor, prefix string, n int, ttl time.Duration) []Pairer {
	ps := make([]Pairer, n)
	for i := range ps {
		ps[i] = floorPairer{f.Caller(fmt.Sprintf("%sfloor:%d", prefix, i), ttl)}
	}
	return ps
}
