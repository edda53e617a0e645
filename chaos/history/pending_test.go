// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An operation that never returns is kept only while a second record of it may come. One whose second record comes late is still completed.
func TestCursor_operationsThatNeverReturn_notKept(t *testing.T) {
	const blocks, late = 5, 3*blockLines + 10
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{Started: time.Now(), Driver: "none", Masters: 1, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	op := func(n int) Op {
		return Op{Kind: KindUnlock, Client: fmt.Sprint("c", n), Lock: "L", Holder: "h", Call: int64(n), Return: Never, Outcome: Unknown}
	}
	for n := 1; n < blocks*blockLines; n++ {
		err := w.Append(op(n))
		if err == nil && n == late {
			second := op(7)
			second.Return, second.Outcome = late, OK
			err = w.Append(second)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := index(path, &History{Part: &Part{RunFrom: Never}})
	if err != nil {
		t.Fatal(err)
	}
	c := &cursor{indexed: x, pending: map[string]*Op{}}
	for c.block < len(c.first) {
		if err := c.read(map[string]string{}); err != nil {
			t.Fatal(err)
		}
		if block := c.block; block > late/blockLines+1 && len(c.pending) > 0 {
			t.Errorf("after block %d of %d, %d operations are kept", block, len(c.first), len(c.pending))
		}
	}
	if len(c.ops) != blocks*blockLines-1 || c.ops[6].Return != late || c.ops[7].Return != Never {
		t.Errorf("%d operations; the seventh returned at %d, and the eighth at %d", len(c.ops), c.ops[6].Return, c.ops[7].Return)
	}
}
