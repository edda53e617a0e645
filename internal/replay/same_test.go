// SPDX-License-Identifier: Apache-2.0

//go:build unix

package replay

import (
	"strconv"
	"testing"
)

func TestSame_twoOfFiveAgree_orNone(t *testing.T) {
	for _, runs := range []string{"a", "bcdc"} { // what the runs after the first write, a letter each
		n := 0
		if !Same(t, []byte("a"), func() []byte { n++; return []byte(runs[n-1 : n]) }) || n != len(runs) {
			t.Errorf("%q: no two of %d runs agree", runs, n)
		}
	}
	n := 0
	if Same(t, []byte("a"), func() []byte { n++; return strconv.AppendInt(nil, int64(n), 10) }) || n%4 != 0 || n > 12 {
		t.Errorf("%d runs of which no two agree are the same", n)
	}
}
