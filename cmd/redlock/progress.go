// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock/admin"
)

// progress says what a command waits for: in one line that is drawn again on a terminal, else in a line for each change. fit is that of its
// masters.
type progress struct {
	w    io.Writer
	fit  func(string) string
	line *termline.Line
	said string
}

func newProgress(w io.Writer, fit func(string) string) *progress {
	return &progress{w: w, fit: fit, line: termline.New(w)}
}

// times are what changes while nothing happens.
var times = regexp.MustCompile(`([0-9.]+(ms|s|m|h))+\b`)

// worthTelling is the shortest wait that is told. A shorter one is over before it is read.
const worthTelling = 100 * time.Millisecond

// tell is a admin.Progress.
func (p *progress) tell(what string, left time.Duration) {
	if left > 0 && left < worthTelling {
		return
	}
	what = p.fit(what)
	if left > 0 {
		what = fmt.Sprintf("%v left: %s", left.Round(100*time.Millisecond), what)
	}
	if p.line.Shows() {
		if r := []rune(what); len(r) > text.LabelWidth+text.Width {
			what = string(r[:text.LabelWidth+text.Width-3]) + "..."
		}
		p.line.Show("%s", what)
		return
	}
	if same := times.ReplaceAllString(strings.ToLower(what), ""); same != p.said {
		p.said = same
		text.Say(p.w, what)
	}
}

// end removes the line. It may be called twice.
func (p *progress) end() { p.line.Clear() }

// standsTime is how long an interrupted command asks the masters what stands.
const standsTime = 3 * time.Second

// sayWhatStands says, after an interrupt, in what the command has left the masters, and what to do next.
func sayWhatStands(w io.Writer, m *masters, next string) {
	ctx, cancel := context.WithTimeout(context.Background(), standsTime)
	defer cancel()
	if s, err := admin.ReadStatus(ctx, m.list()); err == nil {
		m.fitStatus(s)
		text.Say(w, s.Standing.String()+": "+s.Text)
	}
	text.Say(w, next)
}

// ended is err of init, which has said what stands if it was interrupted.
func (c *initial) ended(o output, err error) error {
	if errors.Is(err, context.Canceled) {
		sayWhatStands(o.err, &c.masters, said.InitStopped.Text)
	}
	return err
}
