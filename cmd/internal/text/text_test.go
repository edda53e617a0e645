// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"errors"
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
	if got := OneLine(errors.Join(errors.New("a"), errors.New("b"))); got != "a: b" {
		t.Errorf("%q", got)
	}
}
