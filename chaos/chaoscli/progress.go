// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/history"
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

func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, eraseLine)
	}
}

// line says who holds, which masters are up and what is going wrong: " 12/30 s  hot: c2  masters ++r+.  N1 N9  (17 faults)".
func line(p chaos.Progress, of time.Duration) string {
	if len(p.Votes) == 0 { // simulated
		return fmt.Sprintf("%3.0f/%.0f s of simulated time  %d faults so far", p.Elapsed.Seconds(), of.Seconds(), p.Struck)
	}
	var masters strings.Builder
	for _, v := range p.Votes {
		switch v {
		case history.OK:
			masters.WriteByte('+')
		case history.Failed:
			masters.WriteByte('r')
		default:
			masters.WriteByte('.')
		}
	}
	return fmt.Sprintf("%3.0f/%.0f s  hot: %-3s masters %s (+ votes, r recovers, . silent)  %s  %d faults so far",
		p.Elapsed.Seconds(), of.Seconds(), cmp.Or(p.Holder, "-"), masters.String(), strings.Join(p.Faults, " "), p.Struck)
}
