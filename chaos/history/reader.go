// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// History is a whole run, or a chapter of one. Each slice is ordered by the time of the call, with equal times in the order of the files.
type History struct {
	Header   Header
	Part     *Part // not nil: this is a chapter
	Ops      []Op
	Faults   []Fault
	Votes    []Vote
	Keys     []Key
	Counters []Counter
	Pulses   []Pulse
	Signals  []Signal
	Findings []Finding

	// Torn names the files whose last line was cut off, because the writer was killed. The line is left out; what it described may have
	// happened.
	Torn []string
	// NoEnd names the files of [Open] that have no [End]: nobody can tell whether lines are missing.
	NoEnd []string
}

// Extent returns the time from the first operation or fault of the run to the last. from is Never if there is none.
func (h *History) Extent() (from, to int64) {
	if h.Part != nil {
		return h.Part.RunFrom, h.Part.RunTo
	}
	from = Never
	add := func(begin, end int64) {
		from = min(from, begin)
		if end == Never {
			end = begin
		}
		to = max(to, end)
	}
	for _, op := range h.Ops {
		add(op.Call, op.Return)
	}
	for _, f := range h.Faults {
		add(f.Start, f.End)
	}
	return from, to
}

// ReadFiles reads the files of one run into memory, and merges them. Open reads a history of any length.
func ReadFiles(paths ...string) (*History, error) {
	fs, err := Open(paths...)
	if err != nil {
		return nil, err
	}
	return Load(fs)
}

// ErrCutOff says that a history is not all that was written. What is left of a good one may look like a violation: a lock that waited may be there, and the
// unlock for which it waited not.
var ErrCutOff = errors.New("it is cut off, and lines are missing")

var errForeign = errors.New("no history, which redlock-bench chaos --history writes")

// Read reads one file. Errors call it name, and say which line is wrong.
//
// An unknown field, an unknown word, two records on a line and an empty line are errors: a history that is read wrongly could pass its
// checks. A last line without an end of line is no error, because a killed client leaves one. Torn reports it. In a history that
// is to have an [End] it is one, and so is another line that is missing: [ErrCutOff].
func Read(name string, r io.Reader) (*History, error) {
	h := &History{}
	pending := map[string]int{} // client -> index in Ops of its operation that had not returned
	ls := newLines(name, r)
	for {
		b, err := ls.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		l, err := ls.parse(b)
		if err != nil {
			return nil, ls.failed(err)
		}
		h.add(l, pending)
	}
	h.Torn = ls.torn
	h.sort()
	return h, nil
}

// lines reads the lines of a file. n is the number of the line that next returned.
type lines struct {
	name string
	br   *bufio.Reader
	n    int
	torn []string // the last line, if it was cut off

	whole, ended bool // there is to be an end, and it was read
}

func newLines(name string, r io.Reader) *lines {
	return &lines{name: name, br: bufio.NewReaderSize(r, 1<<16)}
}

// next returns the next whole line, which is valid until next is called again, or io.EOF.
func (ls *lines) next() ([]byte, error) {
	ls.n++
	b, err := ls.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) { // longer than the buffer
		var rest []byte
		b = slices.Clone(b)
		rest, err = ls.br.ReadBytes('\n')
		b = append(b, rest...)
	}
	switch {
	case err == nil && ls.ended:
		return nil, ls.failed(errors.New("a line behind the end"))
	case err == nil:
		return b, nil
	case !errors.Is(err, io.EOF):
		return nil, ls.failed(err)
	case ls.n == 1:
		return nil, fmt.Errorf("history: %s: no header: %w", ls.name, errForeign)
	case ls.whole && !ls.ended:
		return nil, ls.failed(fmt.Errorf("%w: its last whole line is %d, and that is not its end", ErrCutOff, ls.n-1))
	case len(b) > 0:
		ls.torn = append(ls.torn, fmt.Sprintf("%s:%d (%d bytes)", ls.name, ls.n, len(b)))
	}
	return nil, io.EOF
}

// failed says where err is.
func (ls *lines) failed(err error) error {
	switch {
	case ls.n == 1:
		return fmt.Errorf("history: %s:1: %w: %w", ls.name, err, errForeign)
	case errors.Is(err, ErrCutOff):
		return fmt.Errorf("history: %s: %w", ls.name, err)
	}
	return fmt.Errorf("history: %s:%d: %w: the file was changed, or another version or program wrote it", ls.name, ls.n, err)
}

// parse parses the line that next returned. A header is the first line, and no other is.
func (ls *lines) parse(b []byte) (line, error) {
	l, err := parse(b)
	switch {
	case err != nil:
		return l, err
	case (l.Header != nil) != (ls.n == 1):
		return l, errors.New("the header must be the first line, and only that")
	case l.End != nil && !ls.whole:
		return l, errors.New("an end, of which the header does not tell")
	case l.End != nil && l.End.Lines != ls.n:
		return l, fmt.Errorf("%w: it has %d, and had %d", ErrCutOff, ls.n, l.End.Lines)
	}
	ls.whole, ls.ended = ls.whole || l.Whole, l.End != nil
	return l, nil
}

// add adds one line to h.
func (h *History) add(l line, pending map[string]int) {
	switch {
	case l.Header != nil:
		h.Header = *l.Header
	case l.Op != nil:
		h.addOp(*l.Op, pending)
	case l.Fault != nil:
		h.Faults = append(h.Faults, *l.Fault)
	case l.Vote != nil:
		h.Votes = append(h.Votes, *l.Vote)
	case l.Key != nil:
		h.Keys = append(h.Keys, *l.Key)
	case l.Counter != nil:
		h.Counters = append(h.Counters, *l.Counter)
	case l.Pulse != nil:
		h.Pulses = append(h.Pulses, *l.Pulse)
	case l.Signal != nil:
		h.Signals = append(h.Signals, *l.Signal)
	case l.Finding != nil:
		h.Findings = append(h.Findings, *l.Finding)
	}
}

// addOp appends an operation. If the operation has an earlier record, addOp replaces that.
func (h *History) addOp(op Op, pending map[string]int) {
	if i, ok := pending[op.Client]; ok {
		delete(pending, op.Client)
		if was := h.Ops[i]; was.Call == op.Call && was.Kind == op.Kind {
			h.Ops[i] = op
			return
		}
	}
	if op.Return == Never {
		pending[op.Client] = len(h.Ops)
	}
	h.Ops = append(h.Ops, op)
}

func parse(b []byte) (line, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("more than one record on the line")
	}
	return l, l.validate()
}

// validate checks the invariant of line and the shape of its one record.
func (l line) validate() error {
	var errs []error
	check(&errs, l.Header)
	check(&errs, l.Op)
	check(&errs, l.Fault)
	check(&errs, l.Vote)
	check(&errs, l.Key)
	check(&errs, l.Counter)
	check(&errs, l.Pulse)
	check(&errs, l.Signal)
	check(&errs, l.Finding)
	check(&errs, l.End)
	if l.Whole && l.Header == nil {
		errs = append(errs, errors.New("whole: it is for the header"))
	}
	if len(errs) != 1 {
		return fmt.Errorf("%d records on the line, want one", len(errs))
	}
	return errs[0]
}

// check adds what is wrong with a record, or nil, to errs, if there is one.
func check[R interface{ validate() error }](errs *[]error, r *R) {
	if r != nil {
		*errs = append(*errs, (*r).validate())
	}
}

// Merge merges histories of one run. It returns an error if headers differ in more than the start time and the versions, because records of
// two runs must not be judged together. If versions differ, as in a rolling upgrade, it keeps each.
func Merge(hs ...*History) (*History, error) {
	if len(hs) == 0 {
		return nil, errors.New("history: nothing to merge")
	}
	all := &History{Header: hs[0].Header}
	all.Header.Versions = map[string]string{}
	for _, h := range hs {
		if err := all.Header.join(h.Header); err != nil {
			return nil, err
		}
		all.Ops = append(all.Ops, h.Ops...)
		all.Faults = append(all.Faults, h.Faults...)
		all.Votes = append(all.Votes, h.Votes...)
		all.Keys = append(all.Keys, h.Keys...)
		all.Counters = append(all.Counters, h.Counters...)
		all.Pulses = append(all.Pulses, h.Pulses...)
		all.Signals = append(all.Signals, h.Signals...)
		all.Findings = append(all.Findings, h.Findings...)
		all.Torn = append(all.Torn, h.Torn...)
		all.NoEnd = append(all.NoEnd, h.NoEnd...)
	}
	all.sort()
	return all, nil
}

func (h *Header) join(o Header) error {
	if h.Seed != o.Seed || h.Driver != o.Driver || h.Masters != o.Masters || h.TTL != o.TTL || h.Replay != o.Replay || h.Promises != o.Promises {
		return fmt.Errorf("history: files of two runs: %q with seed %d, and %q with seed %d", h.Replay, h.Seed, o.Replay, o.Seed)
	}
	for _, checker := range o.Idle { // clients and harness each know a part of it
		if !slices.Contains(h.Idle, checker) {
			h.Idle = append(slices.Clone(h.Idle), checker)
		}
	}
	if h.Expect == nil { // nor this one
		h.Expect = o.Expect
	}
	if o.Started.Before(h.Started) {
		h.Started = o.Started
	}
	for name, v := range o.Versions {
		for one := range strings.SplitSeq(v, " and ") { // a version is a list if masters differ
			switch was, ok := h.Versions[name]; {
			case !ok:
				h.Versions[name] = one
			case !slices.Contains(strings.Split(was, " and "), one):
				h.Versions[name] = was + " and " + one
			}
		}
	}
	return nil
}

func (h *History) sort() {
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Faults, func(a, b Fault) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortStableFunc(h.Votes, func(a, b Vote) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Keys, func(a, b Key) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.Counters, func(a, b Counter) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Pulses, func(a, b Pulse) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.Signals, func(a, b Signal) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.Findings, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
}

// Write writes h as one file, which Read reads back equal (but for Torn and NoEnd). It is for a merged history: what a run keeps.
func (h *History) Write(w io.Writer) error { return Copy(w, Whole(h)) }

func appendAll[R Record](w *Writer, rs []R) error {
	for _, r := range rs {
		if err := w.Append(r); err != nil {
			return err
		}
	}
	return nil
}
