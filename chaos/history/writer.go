// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// Now returns the time in nanoseconds of CLOCK_MONOTONIC. Package time does not: its monotonic readings begin anew in each process.
func Now() int64 {
	var ts unix.Timespec
	// CLOCK_MONOTONIC exists wherever this builds; the only failures are a bad clock id and a bad pointer.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// Writer appends records to one file. Its methods may be called by any goroutine.
//
// Unlocks and writes of a register are appended twice: before the call, with Return Never and Outcome Unknown; and after the return, with
// the same Client, Kind and Call. The reader keeps the second record. The first one matters if the client is killed during an unlock:
// without it the claim would seem to last, and a checker would report an overlap that did not happen.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	err error     // guarded by mu; set once, by the first failed write
	n   int       // guarded by mu; the lines that were written
}

// NewWriter writes the header to w. Each record is one call of w.Write. The Writer does not buffer, and w should not either: then the
// kernel has every appended record when the client is killed.
func NewWriter(w io.Writer, h Header) (*Writer, error) { return newWriter(w, h, false) }

// newWriter is NewWriter of a file that is whole if end was called.
func newWriter(w io.Writer, h Header, whole bool) (*Writer, error) {
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	hw := &Writer{w: w}
	if err := hw.write(line{Header: &h, Whole: whole}); err != nil {
		return nil, err
	}
	return hw, nil
}

// Append writes one record as one line. If the record is not valid, Append returns an error and writes nothing. After a failed write the
// end of the file is unknown, so every later call returns the same error and writes nothing.
func (w *Writer) Append(r Record) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	var l line
	r.addTo(&l)
	return w.write(l)
}

func (w *Writer) write(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	b = append(b, '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, err := w.w.Write(b); err != nil {
		w.err = fmt.Errorf("history: %w", err)
	}
	w.n++
	return w.err
}
