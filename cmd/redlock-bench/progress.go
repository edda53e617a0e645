// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
)

// progress is one line on a terminal that is written over and over. It writes nothing where no terminal is.
type progress struct{ w io.Writer } // nil: no terminal

const eraseLine = "\r\x1b[K"

func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progress{w}
		}
	}
	return &progress{}
}

func (p *progress) show(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, eraseLine+format, args...)
	}
}

// clear removes the line, so that results can follow.
func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, eraseLine)
	}
}
