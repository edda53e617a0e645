// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// RecordKey is the key of a master's node record in the empty namespace: see [Namespace.Record]. The record is a hash. It holds the
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

// ReadCounters returns the counters that are in a record, by their number. It leaves out those that are no numbers, and joins what is wrong
// with them to the error.
func ReadCounters(record map[string]string) (map[int]int64, error) {
	counters := make(map[int]int64)
	var errs []error
	for field, text := range record {
		i, err := strconv.Atoi(strings.TrimPrefix(field, "c"))
		if err != nil || CounterField(i) != field {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("counter %s is %q", field, text))
			continue
		}
		counters[i] = n
	}
	return counters, errors.Join(errs...)
}
