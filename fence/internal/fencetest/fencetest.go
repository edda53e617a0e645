// SPDX-License-Identifier: Apache-2.0

// Package fencetest judges a fenced register: it runs several holders of one lock in a random order, all pauses possible, and checks
// that no update was lost. It knows the right protocol and two broken ones, so that a test can show that the judge sees the loss.
package fencetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/internal/replay"
)

// Register is one resource: a string, empty at first, and its fence, never shown a token. Its methods are called from one goroutine.
type Register interface {
	Present(token int64) error
	Read() (string, error)
	Write(token int64, value string) error // only while token is the largest one presented
	Overwrite(value string) error          // past the fence
}

// Protocol is how a holder works on a Register.
type Protocol string

const (
	NoFence    Protocol = "no fence"                    // read, write
	AtWrite    Protocol = "token at the write only"     // read, then present and write in one step
	BeforeRead Protocol = "token before the first read" // present, read, guarded write: the right one
)

// Event is one step that a register acknowledged.
type Event struct {
	Token int64
	Op    string // "present", "read", "write", "refused"
	Value string
}

// History is what happened, in order.
type History []Event

func (h History) String() string {
	var b strings.Builder
	for _, e := range h {
		fmt.Fprintf(&b, "  %d %s %q\n", e.Token, e.Op, e.Value)
	}
	return b.String()
}

// LostUpdate says why a history is not sequentially consistent, or returns nil. Each holder writes what it read and its own token, so
// an acknowledged write must extend the acknowledged write before it, and a read must return the last one.
func (h History) LostUpdate() error {
	var last Event
	for i, e := range h {
		switch {
		case e.Op == "read" && e.Value != last.Value:
			return fmt.Errorf("event %d: %d read %q, the last write was %q", i, e.Token, e.Value, last.Value)
		case e.Op == "write" && e.Value != last.Value+mark(e.Token):
			return fmt.Errorf("event %d: %d wrote %q over %q of %d", i, e.Token, e.Value, last.Value, last.Token)
		case e.Op == "write":
			last = e
		}
	}
	return nil
}

func mark(token int64) string { return fmt.Sprintf("%d.", token) }

// holder is one lease: its token and how far it has come.
type holder struct {
	token     int64
	updates   int // to do
	presented bool
	reading   bool   // the next step is a read
	base      string // what the last read returned
	refused   bool
}

// step does the holder's next step and returns its event; done is true when the holder has nothing left to do.
func (h *holder) step(r Register, p Protocol) (e Event, done bool, err error) {
	e.Token = h.token
	switch {
	case p == BeforeRead && !h.presented:
		h.presented = true
		e.Op, err = "present", r.Present(h.token)
	case h.reading:
		h.reading = false
		e.Op = "read"
		e.Value, err = r.Read()
		h.base = e.Value
	default:
		h.reading = true
		h.updates--
		e.Op, e.Value = "write", h.base+mark(h.token)
		err = write(r, p, h.token, e.Value)
	}
	if errors.Is(err, fence.ErrStale) {
		h.refused = true
		return Event{Token: h.token, Op: "refused"}, true, nil
	}
	return e, h.updates == 0, err
}

func write(r Register, p Protocol, token int64, value string) error {
	switch p {
	case NoFence:
		return r.Overwrite(value)
	case AtWrite:
		if err := r.Present(token); err != nil {
			return err
		}
		return r.Overwrite(value)
	}
	return r.Write(token, value)
}

// interleave lets 2 to 5 holders with increasing tokens update r one to three times each, in an order that rng picks step by step. A holder that
// is not picked is paused; one that comes late was delayed.
func interleave(rng *rand.Rand, r Register, p Protocol) (History, error) {
	var running []*holder
	token := rng.Int64N(100)
	for range 2 + rng.IntN(4) {
		token += 1 + rng.Int64N(3)
		running = append(running, &holder{token: token, updates: 1 + rng.IntN(3), reading: true})
	}
	newest := running[len(running)-1]
	var history History
	for len(running) > 0 {
		i := rng.IntN(len(running))
		e, done, err := running[i].step(r, p)
		if err != nil {
			return history, fmt.Errorf("%d %s: %w", running[i].token, e.Op, err)
		}
		history = append(history, e)
		if done {
			running = append(running[:i], running[i+1:]...)
		}
	}
	if newest.refused {
		return history, fmt.Errorf("the newest token %d was refused", newest.token)
	}
	value, err := r.Read()
	return append(history, Event{Op: "read", Value: value}), err
}

// search runs p on as many fresh registers as runs says and returns how many lost an update. Where p must not lose one it fails t with
// the seed and the history.
func search(t *testing.T, p Protocol, runs int, fresh func(t *testing.T, run int) Register) (lost int) {
	t.Helper()
	run := 0
	for seed := range replay.Many(t, runs) {
		history, err := interleave(replay.RNG(seed), fresh(t, run), p)
		run++
		loss := history.LostUpdate()
		if err != nil || loss != nil && p == BeforeRead {
			t.Fatalf("%s: seed %d: %v %v\n%s", p, seed, loss, err, history)
		}
		if loss != nil {
			lost++
		}
	}
	t.Logf("%s: %d of %d runs lost an update", p, lost, runs)
	return lost
}

// Verify is the whole property test of one kind of register: BeforeRead never loses an update, and the judge sees the losses of the
// two broken protocols in the seeds of the list, which interleave the same in each run.
func Verify(t *testing.T, runs int, fresh func(t *testing.T, run int) Register) {
	t.Helper()
	for _, p := range []Protocol{NoFence, AtWrite, BeforeRead} {
		t.Run(string(p), func(t *testing.T) {
			if lost := search(t, p, runs, fresh); replay.Listed() && (lost > 0) == (p == BeforeRead) {
				t.Errorf("%s: %d of %d runs lost an update", p, lost, runs)
			}
		})
	}
}
