// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParagraph_longText_wrappedUnderLabel(t *testing.T) {
	var b bytes.Buffer
	Paragraph(&b, "label", strings.Repeat("word ", 30))
	lines := strings.Split(b.String(), "\n")
	if !strings.HasPrefix(lines[0], "label    word word") || !strings.HasPrefix(lines[1], "         word") || len(lines) != 4 {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if len(line) > LabelWidth+Width || strings.TrimRight(line, " ") != line {
			t.Errorf("%q", line)
		}
	}
	const advice = "if they are new and nobody uses them yet: redlock init --nothing-was-ever-locked --nodes-file 'my  masters'; if not, wait for them"
	want := []string{"if they are new and nobody uses them yet:", "redlock init --nothing-was-ever-locked --nodes-file 'my  masters'; if not, wait", "for them"}
	if got := Wrap(advice, LabelWidth+Width); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := OneLine(errors.Join(errors.New("a"), errors.New("b"))); got != "a: b" {
		t.Errorf("%q", got)
	}
}
