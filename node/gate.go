// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
)

// RecordKey is where a master keeps its node record: a hash with the gate, what else
// package membership keeps there, and the counters that fencing tokens come from. It has
// no TTL and is part of the data set, so whatever replaces the data replaces it too. In a
// cluster it has the slot's tag behind it, as in redlock:node:{locks}.
const RecordKey = "redlock:node"

// Protocol is the version of record and scripts. A master whose record is of
// another version does not vote for this one.
const Protocol = membership.Protocol

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

var (
	// ErrRecord: the node record is not one of ours.
	ErrRecord = membership.ErrRecord
	// ErrProtocol: the record was written by another version of this library.
	ErrProtocol = membership.ErrProtocol
)

// GateError is a master's refusal: its record does not say what the script was
// told to find. Got is the gate that stands there, as text.
type GateError struct{ Got string }

func (e *GateError) Error() string {
	g, err := membership.ParseGate(e.Got)
	if err != nil {
		return err.Error()
	}
	switch g.State {
	case membership.None:
		return "has no record: it is new, or was flushed"
	case membership.Quarantined:
		return fmt.Sprintf("is quarantined in epoch %v", g.Epoch)
	case membership.Retired:
		return fmt.Sprintf("was retired from epoch %v: the masters are being changed", g.Epoch)
	}
	return fmt.Sprintf("votes in epoch %v as incarnation %s", g.Epoch, g.Incarnation)
}

const recordRemedy = "if nothing else uses the key " + RecordKey + " (in a cluster " + RecordKey + ":{tag}), delete it: the master then recovers as after a restart"

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
