// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func header() Header {
	return Header{
		Started: time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC), Seed: 42, Driver: "process", Masters: 5, TTL: 10 * time.Second,
		Replay: "go run ./chaos -seed 42", Promises: Promises{Exclusion: true, Tokens: true}, Versions: map[string]string{"redlock": "v1"},
	}
}

func lockOp(client string, call int64) Op {
	return Op{
		Kind: KindLock, Client: client, Call: call, Return: call + 5, Lock: "L", Mode: Exclusive, Holder: fmt.Sprint(client, ":", call),
		Token: call, Deadline: call + 100, Outcome: OK,
	}
}

// records is one record of each type, with every field set.
func records() []Record {
	return []Record{
		lockOp("a", 10),
		Op{Kind: KindWrite, Client: "a", Call: 20, Return: 21, Lock: "L", Token: 10, Outcome: Failed, Error: "stale", Fenced: true, Value: 7},
		Fault{Nemesis: "three-at-once", Start: 1, End: Never, Targets: []string{"n1", "n2"}, Detail: "kill -9", Error: "no such process"},
		Vote{Node: "n1", Call: 3, Return: 4, Outcome: Unknown, Error: "timeout"},
		Key{Node: "n1", Lock: "L", At: 9, TTL: -1, What: KeyQueue, Holders: "a:1, b:1"},
		Counter{Node: "n1", Incarnation: "i", Slot: 3, Call: 5, Return: 6, Value: 1790000000123456},
		Pulse{Process: "c1", At: 7, Lag: time.Millisecond, Heap: 1 << 20, Goroutines: 40, Idle: true},
		Signal{Process: "c1", Lock: "L", Holder: "h", At: 8, Deadline: 9, Cause: "lost", Renewed: true},
		Finding{At: 9, Detail: "client c1 ended"},
	}
}

// file writes records with a Writer and returns the bytes.
func file(t *testing.T, h Header, rs ...Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func read(t *testing.T, b []byte) *History {
	t.Helper()
	h, err := Read("test", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRead_everyRecord_unchanged(t *testing.T) {
	rs := records()
	h := read(t, file(t, header(), rs...))
	want := &History{
		Header: header(), Ops: []Op{rs[0].(Op), rs[1].(Op)}, Faults: []Fault{rs[2].(Fault)}, Votes: []Vote{rs[3].(Vote)},
		Keys: []Key{rs[4].(Key)}, Counters: []Counter{rs[5].(Counter)},
		Pulses: []Pulse{rs[6].(Pulse)}, Signals: []Signal{rs[7].(Signal)}, Findings: []Finding{rs[8].(Finding)},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got  %+v\nwant %+v", h, want)
	}
	var again bytes.Buffer
	if err := h.Write(&again); err != nil {
		t.Fatal(err)
	}
	if got := read(t, again.Bytes()); !reflect.DeepEqual(got, want) {
		t.Errorf("written again: got %+v", got)
	}
}

func TestRead_badLine_errorNamesFileAndLine(t *testing.T) {
	good := string(file(t, header(), lockOp("a", 10)))
	op := strings.TrimSuffix(good[strings.Index(good, "\n")+1:], "\n")
	for name, bad := range map[string]string{
		"not JSON":       `{"op":`,
		"unknown field":  strings.Replace(op, `"client"`, `"clinet"`, 1),
		"unknown record": `{"opp":{}}`,
		"unknown kind":   strings.Replace(op, `"kind":"lock"`, `"kind":"grab"`, 1),
		"no mode":        strings.Replace(op, `"mode":"exclusive",`, ``, 1),
		"no outcome":     strings.Replace(op, `"outcome":"ok"`, `"outcome":""`, 1),
		"no client":      strings.Replace(op, `"client":"a"`, `"client":""`, 1),
		"bad nemesis":    `{"fault":{"nemesis":"comet","start":1,"end":2}}`,
		"padded nemesis": `{"fault":{"nemesis":" partition","start":1,"end":2}}`,
		"two records":    op + op,
		"two in one":     strings.Replace(op, `{"op"`, `{"key":{"node":"n","lock":"l","at":1,"ttl":1},"op"`, 1),
		"none":           `{}`,
		"empty line":     ``,
		"before boot":    strings.Replace(op, `"call":10`, `"call":-10`, 1),
		"centuries":      strings.Replace(op, `"call":10`, `"call":9223372036854775806`, 1),
		"call is never":  strings.Replace(op, `"call":10`, `"call":9223372036854775807`, 1),
		"early return":   strings.Replace(op, `"return":`, `"return":-`, 1),
		"early deadline": strings.Replace(op, `"deadline":`, `"deadline":-`, 1),
		"late fault":     `{"fault":{"nemesis":"partition","start":1,"end":9000000000000000000}}`,
		"early fault":    `{"fault":{"nemesis":"partition","start":-1,"end":2}}`,
		"far ahead":      `{"fault":{"nemesis":"partition","start":1,"end":2,"ahead":9000000000000000000}}`,
		"early vote":     `{"vote":{"node":"n","call":-1,"return":2,"outcome":"ok"}}`,
		"late vote":      `{"vote":{"node":"n","call":1,"return":9000000000000000000,"outcome":"ok"}}`,
		"early key":      `{"key":{"node":"n","lock":"l","at":-1,"ttl":1}}`,
		"early counter":  `{"counter":{"node":"n","incarnation":"i","slot":0,"call":-1,"return":2,"value":1}}`,
		"early pulse":    `{"pulse":{"process":"p","at":-1,"lag":0,"heap":1,"goroutines":1}}`,
		"negative lag":   `{"pulse":{"process":"p","at":1,"lag":-1,"heap":1,"goroutines":1}}`,
		"late signal":    `{"signal":{"process":"p","lock":"l","holder":"h","at":9000000000000000000,"deadline":1,"cause":"c"}}`,
		"early finding":  `{"finding":{"at":-1,"detail":"d"}}`,
		"second header":  good[:strings.Index(good, "\n")],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read("c1.jsonl", strings.NewReader(good+bad+"\n"+op+"\n"))
			if err == nil || !strings.Contains(err.Error(), "c1.jsonl:3: ") {
				t.Errorf("got error %v, want one that names c1.jsonl:3", err)
			}
		})
	}
}

// A header whose times nothing can be added to is no header.
func TestRead_headerOfCenturies_error(t *testing.T) {
	good := string(file(t, header(), lockOp("a", 10)))
	for _, bad := range []string{`"ttl":9223372036854775807,`, `"ttl":1,"expect":{"heal":9223372036854775807,"min":{}},`, `"ttl":1,"expect":{"heal":-1,"min":{}},`} {
		in := regexp.MustCompile(`"ttl":\d+,`).ReplaceAllString(good, bad)
		if _, err := Read("x", strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), "x:1: header: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A call, a claim and a fault may have no end.
func TestRead_never_isTaken(t *testing.T) {
	op := lockOp("a", 10)
	op.Return, op.Deadline, op.Outcome = Never, Never, Unknown
	h := read(t, file(t, header(), op, Fault{Nemesis: "partition", Start: 1, End: Never}))
	if len(h.Ops) != 1 || len(h.Faults) != 1 {
		t.Errorf("%d operations, %d faults", len(h.Ops), len(h.Faults))
	}
}

func TestRead_noHeader_error(t *testing.T) {
	good := string(file(t, header(), lockOp("a", 10)))
	for name, in := range map[string]string{"empty": "", "torn header": good[:20], "op first": good[strings.Index(good, "\n")+1:]} {
		if _, err := Read("x", strings.NewReader(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Wherever the last line is cut, the rest is kept and the cut is reported: a client can be killed at any byte.
func TestRead_tornLastLine_reportedAndDropped(t *testing.T) {
	first := file(t, header(), lockOp("a", 10))
	both := file(t, header(), lockOp("a", 10), lockOp("b", 20))
	for cut := len(first) + 1; cut < len(both); cut++ {
		h := read(t, both[:cut])
		want := []string{fmt.Sprintf("test:3 (%d bytes)", cut-len(first))}
		if len(h.Ops) != 1 || !slices.Equal(h.Torn, want) {
			t.Fatalf("cut at %d: %d ops, torn %q, want 1 and %q", cut, len(h.Ops), h.Torn, want)
		}
	}
	if h := read(t, both); len(h.Torn) != 0 || len(h.Ops) != 2 {
		t.Errorf("whole file: %d ops, torn %q", len(h.Ops), h.Torn)
	}
}

func TestRead_pending_replacedByItsResult(t *testing.T) {
	pending := func(client string, call int64) Op {
		return Op{Kind: KindUnlock, Client: client, Call: call, Return: Never, Lock: "L", Holder: "h", Outcome: Unknown}
	}
	done := pending("a", 30)
	done.Return, done.Outcome = 35, OK
	h := read(t, file(t, header(), pending("a", 30), pending("b", 31), done, lockOp("a", 40), lockOp("b", 50)))
	// b's unlock never returned, and its next operation must not be taken for the result.
	want := []Op{done, pending("b", 31), lockOp("a", 40), lockOp("b", 50)}
	if !reflect.DeepEqual(h.Ops, want) {
		t.Errorf("got  %+v\nwant %+v", h.Ops, want)
	}
}

func TestWriter_manyGoroutines_wholeLines(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, header())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				if err := w.Append(lockOp(fmt.Sprint("c", g), int64(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if h := read(t, b.Bytes()); len(h.Ops) != 800 {
		t.Errorf("%d ops, want 800", len(h.Ops))
	}
}

// disk counts writes and, while full, cuts them off.
type disk struct {
	bytes.Buffer
	writes int
	full   bool
}

var errFull = errors.New("disk full")

func (d *disk) Write(b []byte) (int, error) {
	d.writes++
	if d.full {
		n, _ := d.Buffer.Write(b[:len(b)/2])
		return n, errFull
	}
	return d.Buffer.Write(b)
}

// Invariant: one record is one write, or a kill could tear more than the last line.
func TestWriter_record_isOneWrite(t *testing.T) {
	out := &disk{}
	w, err := NewWriter(out, header())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records() {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if want := 1 + len(records()); out.writes != want {
		t.Errorf("%d writes for %d lines", out.writes, want)
	}
}

func TestWriter_failedWrite_nothingAfterIt(t *testing.T) {
	out := &disk{}
	w, err := NewWriter(out, header())
	if err != nil {
		t.Fatal(err)
	}
	out.full = true
	if err := w.Append(lockOp("a", 1)); !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
	out.full = false
	if err := w.Append(lockOp("a", 2)); !errors.Is(err, errFull) {
		t.Errorf("after a failed write: got %v, want the same error", err)
	}
	if h := read(t, out.Bytes()); len(h.Ops) != 0 || len(h.Torn) != 1 {
		t.Errorf("%d ops, torn %q, want none and one", len(h.Ops), h.Torn)
	}
}

func TestWriter_wrongShape_refused(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, header())
	if err != nil {
		t.Fatal(err)
	}
	before := b.Len()
	for _, r := range []Record{
		Op{}, Op{Kind: KindLock, Client: "a", Lock: "L", Outcome: OK}, Fault{Nemesis: "kill"}, Vote{Outcome: OK}, Vote{Node: "n"}, Key{}, Counter{}, Pulse{}, Signal{}, Finding{},
	} {
		if err := w.Append(r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	if b.Len() != before {
		t.Error("something was written")
	}
	if _, err := NewWriter(&b, Header{}); err == nil {
		t.Error("an empty header was accepted")
	}
}

func TestReadFiles_severalClients_orderedByCall(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, calls := range [][]int64{{10, 40}, {20, 30}, {5}} {
		h := header()
		h.Versions = map[string]string{"redlock": []string{"v1", "v2", "v1"}[i], fmt.Sprint("only", i): "x",
			"redis": []string{"6.2.16 and 7.0.15", "6.2.16 and 7.0.15", "7.0.15 and 8.0.2"}[i]}
		h.Started = h.Started.Add(-time.Duration(i) * time.Second)
		var rs []Record
		for _, call := range calls {
			rs = append(rs, lockOp(fmt.Sprint("c", i), call))
		}
		b := file(t, h, rs...)
		if i == 2 {
			b = append(b, `{"op":{"ki`...)
		}
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("c%d.jsonl", i)))
		if err := os.WriteFile(paths[i], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := ReadFiles(paths...)
	if err != nil {
		t.Fatal(err)
	}
	var calls []int64
	for _, op := range h.Ops {
		calls = append(calls, op.Call)
	}
	if want := []int64{5, 10, 20, 30, 40}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	if len(h.Torn) != 1 || !strings.HasPrefix(h.Torn[0], paths[2]+":3 ") {
		t.Errorf("torn %q", h.Torn)
	}
	if v := h.Header.Versions; v["redlock"] != "v1 and v2" || v["redis"] != "6.2.16 and 7.0.15 and 8.0.2" || len(v) != 5 {
		t.Errorf("versions %v", v)
	}
	if want := header().Started.Add(-2 * time.Second); !h.Header.Started.Equal(want) {
		t.Errorf("started %v, want the earliest, %v", h.Header.Started, want)
	}
}

func TestMerge_filesOfTwoRuns_refused(t *testing.T) {
	for name, change := range map[string]func(*Header){
		"seed": func(h *Header) { h.Seed++ }, "driver": func(h *Header) { h.Driver = "docker" }, "masters": func(h *Header) { h.Masters = 3 },
		"ttl": func(h *Header) { h.TTL++ }, "replay": func(h *Header) { h.Replay = "" }, "promises": func(h *Header) { h.Promises.Tokens = false },
	} {
		other := header()
		change(&other)
		if _, err := Merge(&History{Header: header()}, &History{Header: other}); err == nil {
			t.Errorf("%s differs: no error", name)
		}
	}
	if _, err := Merge(); err == nil {
		t.Error("nothing: no error")
	}
	if _, err := ReadFiles(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// Now must be the clock that all processes share, not one that starts with this process.
func TestNow_twoProcesses_oneClock(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), printNow+"=1")
	before := Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	after := Now()
	child, err := strconv.ParseInt(string(out), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if child <= before || child >= after {
		t.Errorf("another process read %d between our %d and %d", child, before, after)
	}
}

func BenchmarkRead(b *testing.B) {
	var buf bytes.Buffer
	w, err := NewWriter(&buf, header())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10000 {
		if err := w.Append(lockOp("client", int64(i*10))); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(buf.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read("b", bytes.NewReader(buf.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// Harness and clients each know a part of what a run gives no checker to judge.
func TestMerge_idle_isTheUnion(t *testing.T) {
	of := func(idle ...string) *History {
		return &History{Header: Header{Masters: 3, TTL: 1, Idle: idle}}
	}
	h, err := Merge(of("tokens"), of(), of("counters", "tokens"))
	if err != nil || !slices.Equal(h.Header.Idle, []string{"tokens", "counters"}) {
		t.Errorf("%v, %v", h.Header.Idle, err)
	}
}
