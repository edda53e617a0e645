// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"hash/fnv"
	"strconv"
)

// RecordKey is the key of a master's node record. The record is a hash. It holds the
// record state, the other fields of internal/membership, and the counters from which
// fencing tokens come. It has no TTL. It is part of the data set, so that whatever
// replaces the data replaces the record too. In a cluster the key ends with the slot's
// tag, as in redlock:node:{locks}.
const RecordKey = "redlock:node"

// Counters is the number of counters of a master. A lock's name is hashed to one of them,
// so that a lock that is no longer used leaves no key behind. Locks that share a counter
// make each other's tokens skip numbers, and nothing else.
const Counters = 1024

// counterIndex returns which counter serves the lock called name.
func counterIndex(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32() % Counters)
}

// CounterField returns the record's field of counter i.
func CounterField(i int) string { return "c" + strconv.Itoa(i) }
