// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the present instant in nanoseconds of CLOCK_MONOTONIC. Package time hides that number: its monotonic readings start
// anew in every process.
func Now() int64 {
	var ts unix.Timespec
	// CLOCK_MONOTONIC exists wherever this builds; the only failures are a bad clock id and a bad pointer.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Sec*int64(time.Second) + ts.Nsec
}

// Writer appends records to one file. Its methods may be called by any goroutine.
//
// An operation whose effect must not be lost with the client (unlock, and a write of a register) is appended twice: before
// the call with Return Never and Outcome Unknown, and again, with the same Client, Kind and Call, when it has returned. Reading
// keeps the second. Without the first, an unlock that was executed while its client was being killed would leave a claim
// standing that nobody makes any more, and a checker would report an overlap that never was.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	err error     // guarded by mu; set once, by the first failed write
}

// NewWriter writes the header to w. Every record is one call of w.Write: nothing is buffered here, so that what was appended
// is in the kernel's hands when the client is killed; and w should not buffer either.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	hw := &Writer{w: w}
	if err := hw.write(line{Header: &h}); err != nil {
		return nil, err
	}
	return hw, nil
}

// Append writes one record as one line. A record of a wrong shape is refused and leaves the file as it was. After a failed
// write the end of the file is in doubt, so every later call returns the same error and writes nothing.
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
	return w.err
}
