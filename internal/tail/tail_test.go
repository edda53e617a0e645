// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"fmt"
	"testing"
)

func TestWriter_muchIsWritten_keepsTheEnd(t *testing.T) {
	w := &Writer{Max: 5}
	for _, step := range []struct{ write, kept string }{{"", ""}, {"abc", "abc"}, {"defg", "cdefg"}, {"0123456789", "56789"}} {
		if n, err := fmt.Fprint(w, step.write); n != len(step.write) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if w.String() != step.kept || string(w.Bytes()) != step.kept {
			t.Errorf("after %q: %q and %q, want %q", step.write, w, w.Bytes(), step.kept)
		}
	}
}
