// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// recorded writes h as a run does: a file for each client process and one for the harness, with a line when an operation ends, and one before
// it for unlocks.
func recorded(t *testing.T, h *history.History) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	type file struct {
		b *bytes.Buffer
		w *history.Writer
	}
	files := map[string]file{}
	to := func(name string, r history.Record) {
		f, ok := files[name]
		if !ok {
			f.b = &bytes.Buffer{}
			var err error
			if f.w, err = history.NewWriter(f.b, h.Header); err != nil {
				t.Fatal(err)
			}
			files[name] = f
		}
		if err := f.w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	ops := slices.Clone(h.Ops)
	for _, op := range h.Ops {
		if op.Kind == history.KindUnlock && op.Return != history.Never {
			before := op
			before.Outcome, before.Error, before.Return = history.Unknown, "", history.Never
			ops = append(ops, before)
		}
	}
	end := func(op history.Op) int64 {
		if op.Return == history.Never {
			return op.Call
		}
		return op.Return
	}
	slices.SortStableFunc(ops, func(a, b history.Op) int { return int(end(a) - end(b)) })
	for _, op := range ops {
		to(op.Client[:2], op)
	}
	for _, f := range h.Faults {
		to("harness", f)
	}
	for _, v := range h.Votes {
		to("harness", v)
	}
	for _, c := range h.Counters {
		to("harness", c)
	}
	for _, k := range h.Keys {
		to("harness", k)
	}
	for name, f := range files {
		path := filepath.Join(dir, name+".jsonl")
		if err := os.WriteFile(path, f.b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// readAll reads files as Open did not: one after the other, as a whole.
func readAll(t *testing.T, paths []string) *history.History {
	t.Helper()
	var hs []*history.History
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h, err := history.Read(path, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, h)
	}
	h, err := history.Merge(hs...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func generated(seed uint64) *history.History {
	shape := historytest.Small()
	shape.Duration = 30 * time.Second
	return historytest.Generate(seed, shape)
}

// Batches of any size have every record once, in order, and each is complete.
func TestFiles_batches_asReadWhole(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	replay.Each(t, batchesAsReadWhole)
}

func batchesAsReadWhole(t *testing.T, seed uint64) {
	h, r := generated(seed), replay.RNG(seed)
	// One call waits for most of the run: its line comes many blocks after lines with later calls.
	long := history.Op{Kind: history.KindLock, Client: "p0/patient", Lock: "lock-00", Mode: history.Exclusive, Outcome: history.Failed, Error: "gave up"}
	long.Call, long.Return = h.Ops[10].Call, h.Ops[len(h.Ops)-100].Return
	h.Ops = slices.Insert(h.Ops, 11, long)
	paths := recorded(t, h)
	want := readAll(t, paths)
	fs, err := history.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	from, to := want.Extent()
	if gotFrom, gotTo := fs.Run().Extent(); gotFrom != from || gotTo != to {
		t.Errorf("from %d to %d, want from %d to %d", gotFrom, gotTo, from, to)
	}
	for _, least := range []int{1, 1 + r.IntN(5000), 1e9} {
		got := *fs.Run()
		got.Part, got.NoEnd = nil, nil // want was not read from files
		known, n := int64(history.Beginning), 0
		for b, err := range fs.Batches(least) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Part.From != known {
				t.Fatalf("a batch from %d after one to %d", b.Part.From, known)
			}
			known = b.Part.Known
			if len(b.Own()) != len(b.Ops) {
				t.Fatalf("%d of %d operations of a batch are its own", len(b.Own()), len(b.Ops))
			}
			n++
			got.Ops, got.Keys, got.Counters = append(got.Ops, b.Ops...), append(got.Keys, b.Keys...), append(got.Counters, b.Counters...)
		}
		if !reflect.DeepEqual(&got, want) {
			t.Errorf("batches of %d: %d operations, %d keys and %d counters differ from %d, %d and %d", least, len(got.Ops), len(got.Keys), len(got.Counters),
				len(want.Ops), len(want.Keys), len(want.Counters))
		}
		if least == 1 && n < 2 || least == 1e9 && n > 1 {
			t.Errorf("batches of %d: %d", least, n)
		}
	}
}

func TestCopy_files_oneFile(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	replay.Each(t, copyFiles)
}

func copyFiles(t *testing.T, seed uint64) {
	paths := recorded(t, generated(seed))
	fs, err := history.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := history.Copy(&b, fs); err != nil {
		t.Fatal(err)
	}
	got, err := history.Read("copy", &b)
	if err != nil {
		t.Fatal(err)
	}
	if want := readAll(t, paths); !reflect.DeepEqual(got, want) {
		t.Error("the copy differs")
	}
}

// What is wrong with a line is found, in the first pass or in the second.
func TestFiles_badLine_error(t *testing.T) {
	head := `{"header":{"seed":1,"driver":"d","masters":5,"ttl":1000,"replay":"r","promises":{"exclusion":true,"tokens":true}}}`
	op := `{"op":{"kind":"lock","client":"a","call":1,"return":2,"lock":"L","mode":"exclusive","outcome":"failed"}}`
	for name, line := range map[string]string{
		"no such kind":    strings.Replace(op, `"kind":"lock"`, `"kind":"look"`, 1),
		"unknown field":   strings.Replace(op, `"mode"`, `"mood"`, 1),
		"second header":   head,
		"cut in a number": `{"op":{"kind":"lock","client":"a","call":1e,"return":2}}`,
		"not JSON":        "a lock",
	} {
		path := filepath.Join(t.TempDir(), "h.jsonl")
		if err := os.WriteFile(path, fmt.Appendf(nil, "%s\n%s\n%s\n", head, op, line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := history.ReadFiles(path); err == nil || !strings.Contains(err.Error(), "h.jsonl:3: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A pipe can be read once, and a history is read twice.
func TestOpen_noRegularFile_saysSo(t *testing.T) {
	if _, err := history.Open(os.DevNull); err == nil || !strings.Contains(err.Error(), os.DevNull+": want a regular file") {
		t.Error(err)
	}
}

// A file that is named twice has each operation twice, which looks like a promise that was broken.
func TestOpen_oneFileTwice_refused(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "run"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Symlink(path, other)); err != nil {
		t.Fatal(err)
	}
	for _, twice := range []string{path, other} {
		if _, err := history.Open(path, twice); err == nil || !strings.Contains(err.Error(), "are one file: name it once") {
			t.Errorf("%s: %v", twice, err)
		}
	}
}
