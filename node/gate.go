// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// RecordKey is where a master keeps its node record: a hash with the gate, a text
// of the epoch, and the counters that fencing tokens come from. It has no TTL and
// is part of the data set, so whatever replaces the data replaces it too. In a
// cluster it has the slot's tag behind it, as in redlock:node:{locks}.
const RecordKey = "redlock:node"

// Protocol is the version of record and scripts. A master whose record is of
// another version does not vote for this one.
const Protocol = 1

// Counters is how many counters a master keeps. A lock's name is hashed onto
// one, so that no key is left behind for each lock there ever was; locks that
// share one only make each other's tokens skip.
const Counters = 1024

// counterIndex is the counter that serves the lock called name.
func counterIndex(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32() % Counters)
}

// CounterField is the record's field of counter i.
func CounterField(i int) string { return "c" + strconv.Itoa(i) }

// RecoverySteps is how many steps the wait of a recovering master has.
const RecoverySteps = 8

// State is what a master may do, as its record says.
type State byte

const (
	Voting     State = 'V' // grants votes
	Recovering State = 'R' // grants none until it is safe; live leases may mend theirs
	Retired    State = 'X' // its epoch is over; takes nothing
)

// Gate is the one field of a record that every script compares, as one string.
// Its text is
//
//	protocol|epoch|incarnation|V
//	protocol|epoch|incarnation|R|nonce|step
//	protocol|epoch|incarnation|X|epoch that follows
//
// The zero Gate, whose text is empty, is that of a master without a record.
type Gate struct {
	Protocol    int
	Epoch       string // id of the masters that vote together, see package redlock
	Incarnation string
	State       State
	Nonce       string // of this recovery
	Step        int    // Recovering: how far its wait has come, of RecoverySteps
	Next        string // Retired: the epoch that follows
}

func (g Gate) String() string {
	if g == (Gate{}) {
		return ""
	}
	s := fmt.Sprintf("%d|%s|%s|%c", g.Protocol, g.Epoch, g.Incarnation, g.State)
	switch g.State {
	case Recovering:
		s += fmt.Sprintf("|%s|%d", g.Nonce, g.Step)
	case Retired:
		s += "|" + g.Next
	}
	return s
}

// ErrRecord: the node record is not one of ours.
var ErrRecord = errors.New("node: the record at " + RecordKey + " (in a cluster " + RecordKey + ":{tag}) cannot be read")

const recordRemedy = "if nothing else uses this key, delete it: the master then recovers as after a restart"

// ErrProtocol: the record was written by another version of this library.
var ErrProtocol = errors.New("node: record of another protocol")

// ParseGate is the inverse of String. It returns ErrProtocol for another
// version's gate and ErrRecord for what is no gate at all.
func ParseGate(s string) (Gate, error) {
	if s == "" {
		return Gate{}, nil
	}
	bad := fmt.Errorf("%w: its gate is %.80q; %s", ErrRecord, s, recordRemedy)
	f := strings.Split(s, "|")
	protocol, err := strconv.Atoi(f[0])
	if err != nil || protocol <= 0 || len(f) < 4 {
		return Gate{}, bad
	}
	if protocol != Protocol {
		return Gate{}, fmt.Errorf("%w: %d, this library speaks %d; use one version on all clients (docs/operations.md)", ErrProtocol, protocol, Protocol)
	}
	g := Gate{Protocol: protocol, Epoch: f[1], Incarnation: f[2]}
	if len(f[3]) != 1 {
		return Gate{}, bad
	}
	g.State = State(f[3][0])
	switch {
	case g.State == Voting && len(f) == 4:
	case g.State == Retired && len(f) == 5:
		g.Next = f[4]
	case g.State == Recovering && len(f) == 6:
		g.Nonce = f[4]
		if g.Step, err = strconv.Atoi(f[5]); err != nil || g.Step < 0 {
			return Gate{}, bad
		}
	default:
		return Gate{}, bad
	}
	if g.String() != s {
		return Gate{}, bad
	}
	return g, nil
}

// GateError is a master's refusal: its record does not say what the script was
// told to find. Got is the gate that stands there, as text.
type GateError struct{ Got string }

func (e *GateError) Error() string {
	g, err := ParseGate(e.Got)
	switch {
	case err != nil:
		return err.Error()
	case g == Gate{}:
		return "has no record: it is new, or was flushed"
	case g.State == Recovering:
		return "is recovering"
	case g.State == Retired:
		return fmt.Sprintf("has left epoch %s for %s", g.Epoch, g.Next)
	}
	return fmt.Sprintf("votes in epoch %s as incarnation %s", g.Epoch, g.Incarnation)
}

// refusal gives a script's own errors their type.
func refusal(err error) error {
	switch text, ok := strings.CutPrefix(err.Error(), "REDLOCK "); {
	case !ok:
		return explain(err)
	case strings.HasPrefix(text, "GATE "), text == "GATE":
		return &GateError{Got: strings.TrimPrefix(text[4:], " ")}
	default:
		return fmt.Errorf("%w: %s, and a counter must be a number from 0 to below 2^53; %s", ErrRecord, text, recordRemedy)
	}
}
