// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Protocol is the version of the record and of this machine.
const Protocol = 2

// ErrRecord: a record holds a text that this library did not write.
var ErrRecord = errors.New("the node record cannot be read")

// ErrProtocol: the record was written by another version of this library.
var ErrProtocol = errors.New("the node record is of another protocol")

const remedy = "if nothing else uses this key, delete it: the master then recovers as after a restart"

// State is what a master may do, as its gate says.
type State byte

// None is the state of a master without a gate. A master whose gate is of another incarnation is in state None too.
const (
	None        State = 0
	Quarantined State = 'R' // grants nothing and waits; a live lease may put its vote back
	Voting      State = 'V' // grants votes
	Retired     State = 'X' // its epoch is being left; takes nothing
)

// Nonce makes a text different from every text before. The driver draws 48 random bits for each View.
type Nonce uint64

const nonceBits = 48

func (n Nonce) String() string { return fmt.Sprintf("%012x", uint64(n)) }

// Ballot names one plan to change the masters. Rounds order ballots. The nonce was fresh when the ballot was made, so
// a ballot has one plan only. The zero Ballot is none.
type Ballot struct {
	Round int64
	Nonce Nonce
}

func (b Ballot) String() string { return fmt.Sprintf("%d.%s", b.Round, b.Nonce) }

// Gate is the field of a record that every vote script compares, as one string. Its text is
//
//	2|epoch|incarnation|R|nonce|whole
//	2|epoch|incarnation|V
//	2|epoch|incarnation|X|nonce|ballot
//
// The zero Gate, whose text is empty, is that of a master without a record.
//
// Invariant: a gate with a nonce is set at most once. A client that reads it twice has seen it unbroken.
type Gate struct {
	State       State
	Epoch       Epoch
	Incarnation string // of the master, when the gate was set
	Nonce       Nonce  // R and X: fresh for every compare-and-set that is sent
	Whole       bool   // R: the master voted before and lost nothing; its clock was suspect
	Ballot      Ballot // X: the plan for which the master was retired
}

func (g Gate) String() string {
	if g.State == None {
		return ""
	}
	s := GatePrefix(g.Epoch.String(), g.Incarnation, g.State)
	switch g.State {
	case Quarantined:
		whole := "0"
		if g.Whole {
			whole = "1"
		}
		return s + "|" + g.Nonce.String() + "|" + whole
	case Retired:
		return s + "|" + g.Nonce.String() + "|" + g.Ballot.String()
	}
	return s
}

// GatePrefix is how the text of every such gate begins. For Voting it is the whole text. For Quarantined it is what
// the scripts compare that put back the vote of a live lease.
func GatePrefix(epoch, incarnation string, s State) string {
	return fmt.Sprintf("%d|%s|%s|%c", Protocol, epoch, incarnation, s)
}

// ParseGate is the inverse of String. It returns ErrProtocol for the gate of another version, and ErrRecord for a text
// that is no gate.
func ParseGate(s string) (Gate, error) {
	if s == "" {
		return Gate{}, nil
	}
	t := text{parts: strings.Split(s, "|")}
	protocol := t.number()
	if !t.wrong && protocol > 0 && protocol != Protocol && len(t.parts) >= 3 {
		return Gate{}, fmt.Errorf("%w: %d, this library speaks %d; use one version on all clients (docs/operations.md)", ErrProtocol, protocol, Protocol)
	}
	g := Gate{Epoch: t.epoch(), Incarnation: t.next()}
	if state := t.next(); len(state) == 1 {
		g.State = State(state[0])
	}
	switch g.State {
	case Voting:
	case Quarantined:
		g.Nonce, g.Whole = t.nonce(), t.next() == "1"
	case Retired:
		g.Nonce, g.Ballot = t.nonce(), t.ballot()
	default:
		t.wrong = true
	}
	if t.wrong || g.Incarnation == "" || g.String() != s {
		return Gate{}, fmt.Errorf("%w: its gate is %.120q; %s", ErrRecord, s, remedy)
	}
	return g, nil
}

// text takes the parts of a text one by one. It is lenient: who parses compares the result's String with the text.
type text struct {
	parts []string
	wrong bool
}

func (t *text) next() (part string) {
	if t.wrong = t.wrong || len(t.parts) == 0; !t.wrong {
		part, t.parts = t.parts[0], t.parts[1:]
	}
	return part
}

func (t *text) check(ok bool) { t.wrong = t.wrong || !ok }

func (t *text) number() int64 {
	n, err := strconv.ParseInt(t.next(), 10, 64)
	t.check(err == nil)
	return n
}

func (t *text) nonce() Nonce {
	n, err := strconv.ParseUint(t.next(), 16, nonceBits)
	t.check(err == nil && n > 0)
	return Nonce(n)
}

func (t *text) ballot() Ballot {
	part := text{parts: strings.Split(t.next(), ".")}
	b := Ballot{part.number(), part.nonce()}
	t.check(!part.wrong && b.Round > 0)
	return b
}

func (t *text) epoch() Epoch {
	number, id, _ := strings.Cut(t.next(), ".")
	n, err := strconv.ParseInt(number, 10, 64)
	h, err2 := strconv.ParseUint(id, 16, 64)
	t.check(err == nil && err2 == nil && n > 0 && h > 0)
	return Epoch{n, ID(h)}
}
