// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/termline"
)

// legend explains the line of progress. It is printed once.
const legend = "masters: + votes, r recovers, . does not answer"

// maxLine is the longest line that fits a terminal.
const maxLine = 79

// above is a writer of lines that appear above the line of progress, which comes again with the next look.
type above struct {
	progress *termline.Line
	w        io.Writer
}

func (a above) Write(b []byte) (int, error) {
	a.progress.Clear()
	return a.w.Write(b)
}

// line says how many locks were granted, which client had the hot lock last, which masters vote and which nemeses are striking. If their
// names do not fit the line, it ends with how many more they are.
func line(p chaos.Progress, of time.Duration) string {
	if len(p.Votes) == 0 { // simulated
		return fmt.Sprintf("%.0f/%.0f s of simulated time  %d faults", p.Elapsed.Seconds(), of.Seconds(), p.Struck)
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
	s := fmt.Sprintf("%.0f/%.0f s  %d locks  hot: %s  %s  %d faults ",
		p.Elapsed.Seconds(), of.Seconds(), p.Granted, cmp.Or(p.Holder, "-"), masters.String(), p.Struck)
	for i, name := range p.Faults {
		if more := len(p.Faults) - i; len(s)+len(" ")+len(name)+len(" +9") > maxLine {
			return s + fmt.Sprintf(" +%d", more)
		}
		s += " " + name
	}
	return s
}
