// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A history that was written at once is read as a whole or not at all, wherever it was cut, and by both readers. The file of a process, which may be
// killed, has no end, and Open says so.
func TestRead_cutOff_isAnError(t *testing.T) {
	var b bytes.Buffer
	if err := read(t, file(t, header(), records()...)).Write(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	path := filepath.Join(t.TempDir(), "h.jsonl")
	both := func(text string) (noEnd []string, err error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Read("test", strings.NewReader(text))
		h, opened := ReadFiles(path)
		if errors.Is(err, ErrCutOff) != errors.Is(opened, ErrCutOff) || (err == nil) != (opened == nil) {
			t.Errorf("Read says %v, and Open %v", err, opened)
		}
		if h != nil {
			noEnd = h.NoEnd
		}
		return noEnd, err
	}
	if noEnd, err := both(whole); err != nil || len(noEnd) > 0 {
		t.Fatalf("%v, %q", err, noEnd)
	}
	if noEnd, err := both(string(file(t, header(), lockOp("a", 10)))); err != nil || !slices.Equal(noEnd, []string{path}) {
		t.Fatalf("of a process: %v, %q", err, noEnd)
	}
	first := strings.Index(whole, "\n") + 1
	for n := first; n < len(whole); n++ {
		if _, err := both(whole[:n]); !errors.Is(err, ErrCutOff) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	lines := strings.SplitAfter(whole, "\n")
	for i := 1; i < len(lines)-2; i++ {
		if _, err := both(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")); !errors.Is(err, ErrCutOff) {
			t.Errorf("without line %d: %v", i+1, err)
		}
	}
	for _, more := range []string{whole + lines[1], whole + lines[len(lines)-2]} {
		if _, err := both(more); err == nil || !strings.Contains(err.Error(), "a line behind the end") {
			t.Errorf("one more line: %v", err)
		}
	}
	if _, err := both(string(file(t, header(), lockOp("a", 10))) + lines[len(lines)-2]); err == nil {
		t.Error("an end that was not to be")
	}
}
