// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Source gives the history of a run in batches, so that it need not be in memory. A Source can be read several times, one after the other.
type Source interface {
	// Run returns what is kept of the whole run: Header, Faults, Votes, Pulses, Signals, Findings, Torn, NoEnd, and a Part with the extent. It has no
	// operations.
	Run() *History

	// Batches yields the operations, counters and keys of the run in the order of their calls. Each batch has all that were called in
	// the time of its Part, and about least operations or more. After an error it yields nothing.
	Batches(least int) iter.Seq2[*History, error]
}

// Whole returns a Source that gives h, which must be ordered by calls, as Read and Merge leave it.
func Whole(h *History) Source { return whole{h} }

type whole struct{ h *History }

func (w whole) Run() *History {
	run := *w.h
	run.Ops, run.Keys, run.Counters = nil, nil, nil
	from, to := w.h.Extent()
	run.Part = &Part{From: Beginning, To: Never, Known: Never, RunFrom: from, RunTo: to}
	return &run
}

func (w whole) Batches(least int) iter.Seq2[*History, error] {
	return func(yield func(*History, error) bool) {
		run := w.Run()
		ops, keys, counters := w.h.Ops, w.h.Keys, w.h.Counters
		for from := int64(Beginning); from != Never; {
			known := int64(Never)
			n := max(1, least)
			for n < len(ops) && ops[n].Call == ops[n-1].Call {
				n++
			}
			if n < len(ops) {
				known = ops[n].Call
			}
			b := run.batch(from, known)
			b.Ops = before(&ops, known, func(op Op) int64 { return op.Call })
			b.Keys = before(&keys, known, func(k Key) int64 { return k.At })
			b.Counters = before(&counters, known, func(c Counter) int64 { return c.Call })
			if !yield(b, nil) {
				return
			}
			from = known
		}
	}
}

// batch returns a batch of the run, still without operations, for the time from from to known.
func (h *History) batch(from, known int64) *History {
	b := *h
	part := *h.Part
	part.From, part.To, part.Known = from, known, known
	b.Part = &part
	return &b
}

// before cuts off the records at the front of rs whose time is before t. If t is Never it takes them all.
func before[R any](rs *[]R, t int64, at func(R) int64) []R {
	n := len(*rs)
	if t != Never {
		n = 0
		for n < len(*rs) && at((*rs)[n]) < t {
			n++
		}
	}
	front := (*rs)[:n:n]
	*rs = (*rs)[n:]
	return front
}

// batchOps is how many operations are in memory while a history is copied.
const batchOps = 20_000

// Copy writes the history of src as one file, which Read reads back equal (but for Torn and NoEnd), whatever its length.
func Copy(w io.Writer, src Source) error {
	bw := bufio.NewWriter(w)
	run := src.Run()
	hw, err := newWriter(bw, run.Header, true)
	if err != nil {
		return err
	}
	err = errors.Join(appendAll(hw, run.Faults), appendAll(hw, run.Votes), appendAll(hw, run.Pulses), appendAll(hw, run.Signals), appendAll(hw, run.Findings))
	if err != nil {
		return err
	}
	for b, err := range src.Batches(batchOps) {
		if err != nil {
			return err
		}
		if err := appendAll(hw, b.Ops); err != nil {
			return err
		}
		if err := appendAll(hw, b.Keys); err != nil {
			return err
		}
		if err := appendAll(hw, b.Counters); err != nil {
			return err
		}
	}
	if err := hw.write(line{End: &End{Lines: hw.n + 1}}); err != nil {
		return err
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Load reads all of src into memory.
func Load(src Source) (*History, error) {
	run := src.Run()
	h := *run
	h.Part = nil
	for b, err := range src.Batches(batchOps) {
		if err != nil {
			return nil, err
		}
		h.Ops = append(h.Ops, b.Ops...)
		h.Keys = append(h.Keys, b.Keys...)
		h.Counters = append(h.Counters, b.Counters...)
	}
	h.Ops, h.Keys, h.Counters = slices.Clip(h.Ops), slices.Clip(h.Keys), slices.Clip(h.Counters)
	return &h, nil
}
