// SPDX-License-Identifier: Apache-2.0

package termline

import (
	"bytes"
	"testing"
)

func TestLine_terminalOnly(t *testing.T) {
	var b bytes.Buffer
	l := New(&b)
	l.Show("x")
	l.Clear()
	if b.Len() != 0 || l.Shows() {
		t.Errorf("written to a pipe: %q", &b)
	}
	l = &Line{&b}
	l.Show("a %d", 1)
	l.Clear()
	if want := erase + "a 1" + erase; b.String() != want || !l.Shows() {
		t.Errorf("%q, want %q", &b, want)
	}
}
