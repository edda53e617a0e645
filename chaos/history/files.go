// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
)

// Files is the history of a run on disk. It is a Source: however long the history is, about one batch of it is in memory, with all faults
// and looks at votes.
//
// A line is written when its operation ends, so the lines of a file are not in the order of the calls. Open therefore reads each file once
// and notes, for each block of lines, the earliest call from that block on. While batches are read, everything called before the earliest
// call of the unread blocks is complete, however long an operation took.
type Files struct {
	run   *History
	files []*indexed
}

// blockLines is how many lines a block has.
const blockLines = 1024

// indexed is a file, of which the first pass noted when its lines were called.
type indexed struct {
	path  string
	first []int64 // for each block: the earliest time in it and in all blocks after it; Never if they have no operation, key or counter
}

// Open reads the files of one run for the first time. It keeps the faults and the looks at votes, and no operations.
func Open(paths ...string) (*Files, error) {
	fs := &Files{}
	var hs []*History
	from, to := int64(Never), int64(0)
	for i, path := range paths {
		if j := slices.IndexFunc(paths[:i], func(other string) bool { return sameFile(path, other) }); j >= 0 {
			return nil, fmt.Errorf("history: %s and %s are one file: name it once", paths[j], path)
		}
	}
	for _, path := range paths {
		h := &History{Part: &Part{RunFrom: Never}}
		x, err := index(path, h)
		if err != nil {
			return nil, err
		}
		fs.files = append(fs.files, x)
		hs = append(hs, h)
		from, to = min(from, h.Part.RunFrom), max(to, h.Part.RunTo)
	}
	var err error
	if fs.run, err = Merge(hs...); err != nil {
		return nil, err
	}
	fs.run.Part = &Part{From: Beginning, To: Never, Known: Never, RunFrom: from, RunTo: to}
	f := &History{Faults: fs.run.Faults}
	if faultsFrom, faultsTo := f.Extent(); faultsFrom != Never {
		fs.run.Part.RunFrom, fs.run.Part.RunTo = min(from, faultsFrom), max(to, faultsTo)
	}
	return fs, nil
}

// Run implements Source.
func (fs *Files) Run() *History { return fs.run }

// index reads a file for the first time. It adds header, faults, votes and torn lines to h, and the extent of the operations to h.Part.
func index(path string, h *History) (*indexed, error) {
	info, err := os.Stat(path) // to open a pipe waits for who writes into it
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() { // a folder has an error of its own
		return nil, fmt.Errorf("history: %s: want a regular file, because it is read twice", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer f.Close()
	x := &indexed{path: path}
	ls := newLines(path, f)
	for {
		b, err := ls.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if ls.n%blockLines == 1 {
			x.first = append(x.first, Never)
		}
		t, err := h.skim(ls, b)
		if err != nil {
			return nil, ls.failed(err)
		}
		x.first[len(x.first)-1] = min(x.first[len(x.first)-1], t)
	}
	h.Torn = ls.torn
	if !ls.whole {
		h.NoEnd = []string{path}
	}
	for i := len(x.first) - 2; i >= 0; i-- {
		x.first[i] = min(x.first[i], x.first[i+1])
	}
	return x, nil
}

// skim adds a line to h unless it is an operation, a key or a counter. Of these it returns the time, and otherwise Never. It does not look at
// every field of an operation: the second pass does.
func (h *History) skim(ls *lines, b []byte) (int64, error) {
	first := ls.n == 1
	if bytes.HasPrefix(b, opPrefix) && !first {
		call, ok1 := field(b, callField)
		ret, ok2 := field(b, returnField)
		if ok1 && ok2 {
			h.extend(call, ret)
			return call, nil
		}
	}
	if bytes.HasPrefix(b, counterPrefix) && !first {
		if call, ok := field(b, callField); ok {
			return call, nil
		}
	}
	l, err := ls.parse(b)
	if err != nil {
		return 0, err
	}
	switch {
	case l.Op != nil:
		h.extend(l.Op.Call, l.Op.Return)
		return l.Op.Call, nil
	case l.Key != nil:
		return l.Key.At, nil
	case l.Counter != nil:
		return l.Counter.Call, nil
	}
	h.add(l, nil)
	return Never, nil
}

// extend adds an operation to the extent in h.Part.
func (h *History) extend(call, ret int64) {
	if ret == Never {
		ret = call
	}
	h.Part.RunFrom, h.Part.RunTo = min(h.Part.RunFrom, call), max(h.Part.RunTo, ret)
}

var (
	opPrefix, counterPrefix = []byte(`{"op":{`), []byte(`{"counter":{`)
	// A quote inside a JSON string has a backslash before it, so no text can look like one of these.
	callField, returnField = []byte(`"call":`), []byte(`"return":`)
)

// field finds a whole number in a line, without parsing the rest.
func field(b, name []byte) (int64, bool) {
	i := bytes.Index(b, name)
	if i < 0 {
		return 0, false
	}
	b = b[i+len(name):]
	end := bytes.IndexAny(b, ",}")
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b[:end]), 10, 64)
	return n, err == nil
}

// Batches implements Source.
func (fs *Files) Batches(least int) iter.Seq2[*History, error] {
	return func(yield func(*History, error) bool) {
		r := &reading{words: map[string]string{}}
		defer r.close()
		for _, x := range fs.files {
			r.cursors = append(r.cursors, &cursor{indexed: x, pending: map[string]*Op{}})
		}
		for from := int64(Beginning); from != Never; {
			known, err := r.fill(least)
			if err != nil {
				yield(nil, err)
				return
			}
			b := fs.run.batch(from, known)
			r.take(b, known)
			if !yield(b, nil) {
				return
			}
			from = known
		}
	}
}

// reading is one pass over the files.
type reading struct {
	cursors []*cursor
	words   map[string]string // so that equal names are in memory once
}

// cursor is the place in one file, with the records read that no batch has had yet. The file is open from its first block to its last.
type cursor struct {
	*indexed
	file     *os.File
	lines    *lines
	block    int // the next one
	ops      []*Op
	keys     []Key
	counters []Counter
	pending  map[string]*Op // client -> its operation that had not returned, and may have a second record
}

// unread returns the earliest time in the blocks that are not read.
func (c *cursor) unread() int64 {
	if c.block == len(c.first) {
		return Never
	}
	return c.first[c.block]
}

// fill reads blocks until a batch of least operations is complete, and returns the time up to which everything is.
func (r *reading) fill(least int) (known int64, err error) {
	for {
		next := slices.MinFunc(r.cursors, func(a, b *cursor) int { return cmp.Compare(a.unread(), b.unread()) })
		known = next.unread()
		if known == Never || r.complete(known, least) {
			break
		}
		if err := next.read(r.words); err != nil {
			return 0, err
		}
	}
	if known == Never { // what is left has faults and votes only, but all of it must be valid
		for _, c := range r.cursors {
			for c.block < len(c.first) {
				if err := c.read(r.words); err != nil {
					return 0, err
				}
			}
		}
	}
	return known, nil
}

// complete reports whether least operations that were called before known have been read.
func (r *reading) complete(known int64, least int) bool {
	all := 0
	for _, c := range r.cursors {
		all += len(c.ops)
	}
	if all < least {
		return false
	}
	n := 0
	for _, c := range r.cursors {
		for _, op := range c.ops {
			if op.Call < known {
				n++
			}
		}
	}
	return n >= max(1, least)
}

// read reads one block.
func (c *cursor) read(words map[string]string) error {
	if c.file == nil {
		var err error
		if c.file, err = os.Open(c.path); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		c.lines = newLines(c.path, c.file)
	}
	c.block++
	for range blockLines {
		b, err := c.lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l, err := c.lines.parse(b)
		if err != nil {
			return c.lines.failed(err)
		}
		c.add(l, words)
	}
	// A second record of an operation has the same call, so it is not among lines that were all called later.
	maps.DeleteFunc(c.pending, func(_ string, op *Op) bool { return op.Call < c.unread() })
	if c.block == len(c.first) {
		return c.file.Close()
	}
	return nil
}

func (c *cursor) add(l line, words map[string]string) {
	switch {
	case l.Op != nil:
		op := l.Op
		for _, s := range []*string{&op.Client, &op.Lock, &op.Voters, &op.Error, (*string)(&op.Kind), (*string)(&op.Mode), (*string)(&op.Outcome)} {
			*s = word(words, *s)
		}
		was := c.pending[op.Client]
		delete(c.pending, op.Client)
		if was != nil && was.Call == op.Call && was.Kind == op.Kind {
			*was = *op
			return
		}
		if op.Return == Never {
			c.pending[op.Client] = op
		}
		c.ops = append(c.ops, op)
	case l.Key != nil:
		l.Key.Node, l.Key.Lock = word(words, l.Key.Node), word(words, l.Key.Lock)
		c.keys = append(c.keys, *l.Key)
	case l.Counter != nil:
		l.Counter.Node, l.Counter.Incarnation = word(words, l.Counter.Node), word(words, l.Counter.Incarnation)
		c.counters = append(c.counters, *l.Counter)
	}
}

// mostWords bounds the words that are kept: a history may have names that do not come again.
const mostWords = 100_000

func word(words map[string]string, s string) string {
	if w, ok := words[s]; ok {
		return w
	}
	if len(words) < mostWords {
		words[s] = s
	}
	return s
}

// take moves to b the records that were called before known.
func (r *reading) take(b *History, known int64) {
	for _, c := range r.cursors {
		c.ops = split(c.ops, known, func(op *Op) int64 { return op.Call }, func(op *Op) { b.Ops = append(b.Ops, *op) })
		c.keys = split(c.keys, known, func(k Key) int64 { return k.At }, func(k Key) { b.Keys = append(b.Keys, k) })
		c.counters = split(c.counters, known, func(c Counter) int64 { return c.Call }, func(c Counter) { b.Counters = append(b.Counters, c) })
	}
	b.sort()
}

// split gives take the records whose time is before known, and returns the others.
func split[R any](rs []R, known int64, at func(R) int64, take func(R)) []R {
	var rest []R
	for _, r := range rs {
		if known == Never || at(r) < known {
			take(r)
		} else {
			rest = append(rest, r)
		}
	}
	return rest
}

func (r *reading) close() {
	for _, c := range r.cursors {
		if c.file != nil {
			_ = c.file.Close()
		}
	}
}

// sameFile says whether two paths lead to one file that is there.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
