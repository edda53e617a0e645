// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Never is the Return or End of an operation or fault that was still running when its record was written.
const Never = math.MaxInt64

// No history is later than latest, and nothing in it lasts longer than longest: sums and differences of a few of them are numbers of 64 bits.
const (
	latest  = 1 << 61 // 73 years
	longest = 1 << 60
)

// Kind says what an operation does.
type Kind string

// The kinds of operation.
const (
	KindLock   Kind = "lock"   // take a lock, waiting or not; of a re-entrant lock only the outermost call is recorded
	KindUnlock Kind = "unlock" // release the lock
	KindExtend Kind = "extend" // extend the lease; renewals by the library are recorded too
	KindRead   Kind = "read"   // read the register that the lock guards
	KindWrite  Kind = "write"  // replace the register's value by the value read, plus one
	KindProbe  Kind = "probe"  // after the last fault: take the lock and release it, to show that it can be taken

	KindService Kind = "service" // at any time: the harness takes a lock that nobody else wants, and releases it
	KindMisfit  Kind = "misfit"  // a client that the masters must refuse tries to take a lock; Failed: a quorum refused it
)

// Mode is how a lock is taken.
type Mode string

// The modes. Readers may overlap readers, nothing else may overlap.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "read"
	Writing   Mode = "write"
)

// Outcome is what a client knows about its operation. There are three, because a call without a reply may have been executed.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"      // it happened, between Call and Return
	Failed  Outcome = "failed"  // it did not happen and never will
	Unknown Outcome = "unknown" // it may have happened, or may happen later
)

// Header is the first line of every file. It says what was run, and how to repeat it.
type Header struct {
	Started  time.Time         `json:"started"`            // wall clock, for the reader only
	Seed     uint64            `json:"seed"`               // of everything random in the run
	Driver   string            `json:"driver"`             // what the masters ran in: "process", "docker", ...
	Masters  int               `json:"masters"`            // N
	TTL      time.Duration     `json:"ttl"`                // the largest TTL any client asks for, in nanoseconds
	Replay   string            `json:"replay"`             // the command that runs it again
	Promises Promises          `json:"promises"`           // what must hold under the faults of this run
	Versions map[string]string `json:"versions,omitempty"` // "redlock", "redis", "go", ...

	// Idle are the checkers to which the run gives nothing to judge, for example fenced-register in a run without registers. Every other checker
	// must have seen something.
	Idle []string `json:"idle,omitempty"`

	// Expect is what else the run must have kept. A history that another harness wrote may have none.
	Expect *Expect `json:"expect,omitempty"`
}

// Promises say what must hold in a run (docs/chaos.md, "What is promised under each nemesis"), or what a fault may break.
type Promises struct {
	Exclusion bool `json:"exclusion"` // X: claimed validities of one lock never overlap
	Tokens    bool `json:"tokens"`    // T: fencing tokens are unique and ordered, the fenced register loses nothing
}

// Op is one operation of one client. Which fields are set depends on Kind:
//
//   - lock: Lock, Mode; if OK also Holder, Token (0 if none was issued), Voters and Deadline;
//   - unlock: Lock, Holder. If the library reports a lease as lost, the client records its unlock then, because its claim ends then;
//   - extend: Lock, Holder; if OK also Deadline, the new one;
//   - read, write: Lock (the name of the register), Fenced, Token (0 if none was shown), Value;
//   - probe, service, misfit: Lock; a service that was granted also Holder.
type Op struct {
	Kind Kind `json:"kind"`

	// Client is one thread of control: it has at most one operation in flight. A goroutine that renews in the background is
	// a client of its own.
	Client string `json:"client"`

	Call   int64  `json:"call"`   // read before the operation began
	Return int64  `json:"return"` // read after it ended; Never if it had not
	Lock   string `json:"lock"`
	Mode   Mode   `json:"mode,omitempty"`
	Fair   bool   `json:"fair,omitempty"`   // the call waits in the queue of the lock, in the order of arrival
	Holder string `json:"holder,omitempty"` // id of the attempt that was granted: one grant, one holder
	Token  int64  `json:"token,omitempty"`

	// Voters are the names of the masters that had given a grant their votes when it returned, with commas between them.
	Voters string `json:"voters,omitempty"`

	// Deadline is the instant at which the claim of the client ends without an unlock. The client computed it.
	Deadline int64 `json:"deadline,omitempty"`

	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`  // class of the error: few values, no addresses or ids in it; of a misfit, what is wrong with it
	Fenced  bool    `json:"fenced,omitempty"` // the operation is on the register that checks tokens
	Value   int64   `json:"value,omitempty"`  // read or written; a register begins at 0
}

// Fault is one strike of a nemesis.
type Fault struct {
	Nemesis string   `json:"nemesis"` // one of Nemeses
	Start   int64    `json:"start"`
	End     int64    `json:"end"` // when the fault ended; Never if it did not
	Targets []string `json:"targets,omitempty"`
	// Ahead is how far the clocks of the targets were ahead at most, or were set back, in nanoseconds: a key that was given its TTL then lasts so much longer, since End.
	Ahead  time.Duration `json:"ahead,omitempty"`
	Detail string        `json:"detail,omitempty"` // its parameters in words
	Error  string        `json:"error,omitempty"`  // not empty: the fault could not be applied, and does not count
	// MayBreak are the promises that the fault suspends while it can matter. A fault with an Error may have been applied in part, and
	// suspends them too.
	MayBreak Promises `json:"may_break,omitzero"`
}

// Vote is one observation of whether a master votes. OK: it votes. Failed: it answers and does not vote (it recovers, or is in another
// epoch). Unknown: it does not answer.
type Vote struct {
	Node    string  `json:"node"`
	Call    int64   `json:"call"`
	Return  int64   `json:"return"`
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// Key is a key that a scan found on a master.
type Key struct {
	Node string        `json:"node"`
	Lock string        `json:"lock"`
	At   int64         `json:"at"`  // before it was read
	TTL  time.Duration `json:"ttl"` // what is left, in nanoseconds; negative: the key has no expiry

	What KeyKind `json:"what,omitempty"`

	// Holders are the ids in the key, with commas between them: of the holders that have a vote, of the waiters in a queue, or of the client
	// whose sign of life it is.
	Holders string `json:"holders,omitempty"`
}

// KeyKind says what a Key is.
type KeyKind string

// The kinds of key.
const (
	KeyVotes KeyKind = ""      // the votes for a lock, or a key that nobody knows
	KeyQueue KeyKind = "queue" // the queue of the lock
	KeyAlive KeyKind = "alive" // a client's sign of life; Lock is the name of the key
)

// Counter is one reading of a fencing counter of a master.
type Counter struct {
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"` // changes when the master has lost its data
	Slot        int    `json:"slot"`        // which of the master's counters
	Call        int64  `json:"call"`
	Return      int64  `json:"return"`
	Value       int64  `json:"value"`
}

// Record is one line after the header: an Op, a Fault, a Vote, a Key, a Counter, a Pulse, a Signal or a Finding.
type Record interface {
	validate() error
	addTo(l *line)
}

// line is the JSON form of a line. Invariant: exactly one pointer is set.
type line struct {
	Header  *Header  `json:"header,omitempty"`
	Whole   bool     `json:"whole,omitempty"` // beside a header: the last line is an End
	Op      *Op      `json:"op,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
	Vote    *Vote    `json:"vote,omitempty"`
	Key     *Key     `json:"key,omitempty"`
	Counter *Counter `json:"counter,omitempty"`
	Pulse   *Pulse   `json:"pulse,omitempty"`
	Signal  *Signal  `json:"signal,omitempty"`
	Finding *Finding `json:"finding,omitempty"`
	End     *End     `json:"end,omitempty"`
}

// End is the last line of a history that was written at once, as a run does when it has ended: without it, or another line, the history is cut off. The
// file of one process has none, because that may be killed at any time.
type End struct {
	Lines int `json:"lines"` // of the file, with the header and this one
}

func (o Op) addTo(l *line)      { l.Op = &o }
func (v Vote) addTo(l *line)    { l.Vote = &v }
func (k Key) addTo(l *line)     { l.Key = &k }
func (c Counter) addTo(l *line) { l.Counter = &c }
func (f Fault) addTo(l *line)   { l.Fault = &f }

func (End) validate() error { return nil } // the reader counts the lines

// validate checks one record by itself, when it is written and when it is read. Checkers judge what records mean together, for example that
// a client has one operation at a time. So a history that is wrong in this sense can be read.

// neverIdle are the checkers that every run gives something to judge, and mayIdle are the others.
var (
	neverIdle = []string{"assumptions", "exclusion", "linearizable", "healed", "effort", "harness"}
	mayIdle   = []string{"tokens", "fenced-register", "unfenced-register", "counters",
		"left-behind", "signals", "queue-order", "availability", "resources", "refusals"}
)

// began returns an error if t is no instant of the clock, named what.
func began(what string, t int64) error {
	if t < 0 || t > latest {
		return fmt.Errorf("%s %d: want nanoseconds of CLOCK_MONOTONIC, from 0 to %d", what, t, int64(latest))
	}
	return nil
}

// ended is began for what may be Never.
func ended(what string, t int64) error {
	if err := began(what, t); err != nil && t != Never {
		return fmt.Errorf("%w, or %d for never", err, int64(Never))
	}
	return nil
}

// lasts returns an error if d is not how long something can last, named what.
func lasts(what string, d time.Duration) error {
	if d < 0 || d > longest {
		return fmt.Errorf("%s %d: want nanoseconds, from 0 to %d", what, int64(d), int64(longest))
	}
	return nil
}

func (h Header) validate() error {
	if h.Masters < 1 || h.TTL <= 0 {
		return fmt.Errorf("header: masters %d and ttl %v must be positive", h.Masters, h.TTL)
	}
	if h.Expect != nil {
		if err := lasts("header: heal", h.Expect.Heal); err != nil {
			return err
		}
	}
	for _, checker := range h.Idle {
		if slices.Contains(neverIdle, checker) {
			return fmt.Errorf("header: idle names %q, which judges every run: leave it out", checker)
		}
		if !slices.Contains(mayIdle, checker) {
			return fmt.Errorf("header: idle names %q, which is no checker: want some of %s", checker, strings.Join(mayIdle, ", "))
		}
	}
	return lasts("header: ttl", h.TTL)
}

func (o Op) validate() error {
	if o.Client == "" || o.Lock == "" {
		return errors.New("op: client and lock must be named")
	}
	switch o.Kind {
	case KindUnlock, KindExtend, KindRead, KindWrite, KindProbe, KindService, KindMisfit:
	case KindLock:
		if o.Mode != Exclusive && o.Mode != Shared && o.Mode != Writing {
			return fmt.Errorf("op: no such mode: %q", o.Mode)
		}
	default:
		return fmt.Errorf("op: no such kind: %q", o.Kind)
	}
	return cmp.Or(began("op: call", o.Call), ended("op: return", o.Return), ended("op: deadline", o.Deadline), o.Outcome.validate())
}

func (o Outcome) validate() error {
	switch o {
	case OK, Failed, Unknown:
		return nil
	}
	return fmt.Errorf("no such outcome: %q", string(o))
}

func (f Fault) validate() error {
	if !slices.Contains(nemeses, f.Nemesis) {
		return fmt.Errorf("fault: no such nemesis: %q; redlock-bench chaos list shows them", f.Nemesis)
	}
	return cmp.Or(began("fault: start", f.Start), ended("fault: end", f.End), lasts("fault: ahead", f.Ahead))
}

func (v Vote) validate() error {
	if v.Node == "" {
		return errors.New("vote: node must be named")
	}
	return cmp.Or(began("vote: call", v.Call), ended("vote: return", v.Return), v.Outcome.validate())
}

func (k Key) validate() error {
	if k.Node == "" || k.Lock == "" {
		return errors.New("key: node and lock must be named")
	}
	return began("key: at", k.At)
}

func (c Counter) validate() error {
	if c.Node == "" || c.Incarnation == "" {
		return errors.New("counter: node and incarnation must be named")
	}
	return cmp.Or(began("counter: call", c.Call), ended("counter: return", c.Return))
}
