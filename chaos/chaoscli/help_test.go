// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/internal/text"
)

// The help fits a terminal, and says of no flag that the default is the default.
func TestHelp_everyCommand_fitsATerminal(t *testing.T) {
	for _, cmd := range commands() {
		code, out, stderr := cli(t, t.Context(), cmd.name, "--help")
		if code != exitHeld || stderr != "" || !strings.Contains(out, "usage: redlock-bench chaos "+cmd.name) {
			t.Errorf("%s: exit code %d: %s%s", cmd.name, code, out, stderr)
		}
		for line := range strings.Lines(out) {
			if cmd.name == "check" && strings.Contains(line, "always") {
				t.Errorf("%s writes what it is told to: %q", cmd.name, line)
			}
			if len(line) > text.LabelWidth+text.Width+1 || strings.Contains(line, "default default") || strings.Contains(line, "(default 0") || strings.Contains(line, "(default false") {
				t.Errorf("%s: %q", cmd.name, line)
			}
		}
	}
}

// The verdicts of chaos check stand below one another.
func TestCheck_verdicts_aligned(t *testing.T) {
	_, out, _ := cli(t, t.Context(), "check", aHistory(t, true))
	n := 0
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		n++
		if checker, rest := line[:18], line[18:]; strings.TrimSpace(checker) == "" || !strings.HasSuffix(checker, " ") || rest[0] == ' ' || rest[8] != ' ' || rest[9] == ' ' {
			t.Errorf("%q", line)
		}
	}
	if n < 10 {
		t.Errorf("%d verdicts: %s", n, out)
	}
}

func TestSay_errorOfChaos_saidOnce(t *testing.T) {
	var b bytes.Buffer
	(&console{err: &b}).say(fmt.Errorf("%w: %w", chaos.ErrNode, errors.New("it is a replica")))
	if b.String() != "redlock-bench chaos: cannot use the masters: it is a replica\n" {
		t.Errorf("%q", &b)
	}
}
