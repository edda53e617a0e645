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

// RecordError is ErrRecord with what a person must see before deleting anything: both lists, each with its maximum TTL and drift.
type RecordError struct {
	What         string // is wrong with the record
	Key          string // names the key, if it is known
	Theirs, Ours string // the lists of the record and of this client, if they are known
}

func (e *RecordError) Error() string {
	s := ErrRecord.Error() + ": " + e.What
	switch e.Ours {
	case "":
		s += "; redlock status shows the list that it names"
	case e.Theirs:
		s += "; it names your list, " + e.Ours
	default:
		theirs := e.Theirs
		if theirs == "" {
			theirs = "no list"
		}
		s += "; it names " + theirs + "; you gave " + e.Ours
	}
	key := e.Key
	if key == "" {
		key = "this key"
	}
	return s + "; if nothing else uses " + key + ", delete it: the master then recovers as after a restart"
}

// Unwrap returns ErrRecord.
func (e *RecordError) Unwrap() error { return ErrRecord }

// bad is the RecordError of a field with a text that this library did not write.
func bad(field, text string) error {
	return &RecordError{What: fmt.Sprintf("%s is %.200q", field, text)}
}

// Beside returns err with both lists in its RecordError, or err if it has none. fields are the record, as far as it was read.
func Beside(err error, fields map[string]string, ours *Terms) error {
	var e *RecordError
	if !errors.As(err, &e) {
		return err
	}
	both := *e
	both.Ours = ours.String()
	if theirs, err := ParseTerms(fields[FieldTerms]); err == nil {
		both.Theirs = theirs.String()
	}
	return &both
}

// Phase is what a master may do, as its record state says.
type Phase byte

// None is the phase of a master without a record state, and of a master whose record state is of another incarnation.
const (
	None        Phase = 0
	Quarantined Phase = 'R' // grants nothing and waits; a live lease may put its vote back
	Voting      Phase = 'V' // grants votes
	Retired     Phase = 'X' // its epoch is being left; takes nothing
)

// Nonce makes a text different from every text before. The driver draws 47 random bits for each View.
type Nonce uint64

const nonceBits = 48

func (n Nonce) String() string { return fmt.Sprintf("%012x", uint64(n)) }

// Ballot names one plan to change the masters. Rounds order ballots. The nonce was fresh when the ballot was made, so
// a ballot has one plan only. The zero Ballot is none.
type Ballot struct {
	Round int64
	Nonce Nonce
}

// above says whether b is larger than c. Two processes that do not see each other make ballots of one round. Then whoever compares them must come to the
// same, in whatever order it meets them: a master that relearns a promise, and a change that takes over a plan.
func (b Ballot) above(c Ballot) bool {
	return b.Round > c.Round || b.Round == c.Round && b.Nonce > c.Nonce
}

func (b Ballot) String() string { return fmt.Sprintf("%d.%s", b.Round, b.Nonce) }

// RecordState is the field of a record that every vote script compares, as one string. Its text is
//
//	2|epoch|incarnation|R|nonce|whole
//	2|epoch|incarnation|V
//	2|epoch|incarnation|X|nonce|ballot
//
// The zero RecordState, whose text is empty, is that of a master without a record.
//
// Invariant: a record state with a nonce is set at most once. A client that reads it twice has seen it unbroken.
type RecordState struct {
	Phase       Phase
	Epoch       Epoch
	Incarnation string // of the master, when the state was set
	Nonce       Nonce  // R and X: fresh for every compare-and-set that is sent
	Whole       bool   // R: the master voted before and lost nothing; its clock was suspect
	Ballot      Ballot // X: the plan for which the master was retired
}

func (rs RecordState) String() string {
	if rs.Phase == None {
		return ""
	}
	s := RecordStatePrefix(rs.Epoch.String(), rs.Incarnation, rs.Phase)
	switch rs.Phase {
	case Quarantined:
		whole := "0"
		if rs.Whole {
			whole = "1"
		}
		return s + "|" + rs.Nonce.String() + "|" + whole
	case Retired:
		return s + "|" + rs.Nonce.String() + "|" + rs.Ballot.String()
	}
	return s
}

// RecordStatePrefix is how the text of every such state begins. For Voting it is the whole text. For Quarantined it is
// what the scripts compare that put back the vote of a live lease.
func RecordStatePrefix(epoch, incarnation string, phase Phase) string {
	return fmt.Sprintf("%d|%s|%s|%c", Protocol, epoch, incarnation, phase)
}

// ParseRecordState is the inverse of String. It returns ErrProtocol for the state of another version, and ErrRecord for
// a text that is no record state.
func ParseRecordState(s string) (RecordState, error) {
	if s == "" {
		return RecordState{}, nil
	}
	t := text{parts: strings.Split(s, "|")}
	protocol := t.number()
	if !t.wrong && protocol > 0 && protocol != Protocol && len(t.parts) >= 3 {
		return RecordState{}, fmt.Errorf("%w: %d, this library speaks %d; use one version on all clients (docs/operations.md)", ErrProtocol, protocol, Protocol)
	}
	rs := RecordState{Epoch: t.epoch(), Incarnation: t.next()}
	if phase := t.next(); len(phase) == 1 {
		rs.Phase = Phase(phase[0])
	}
	switch rs.Phase {
	case Voting:
	case Quarantined:
		rs.Nonce, rs.Whole = t.nonce(), t.next() == "1"
	case Retired:
		rs.Nonce, rs.Ballot = t.nonce(), t.ballot()
	default:
		t.wrong = true
	}
	if t.wrong || rs.Incarnation == "" || rs.String() != s {
		return RecordState{}, bad("its state", s)
	}
	return rs, nil
}

// text takes the parts of a text one by one. It is lenient, because each parser compares the String of its result with
// the text.
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
