// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"encoding/binary"
	"slices"
	"time"
)

// Append appends to b all that the master has, for an explorer that tells states apart. Two masters of one lock whose bytes are equal have
// one future.
func (m *Master) Append(b []byte) []byte {
	text := func(s string) { b = append(append(b, byte(len(s))), s...) }
	number := func(d time.Duration) { b = binary.AppendVarint(b, int64(d)) }
	text(m.State)
	b = binary.AppendVarint(b, m.Counter)
	text(m.mode)
	b = append(b, byte(len(m.fields)))
	for _, f := range m.fields {
		text(f)
	}
	number(m.until)
	b = append(b, byte(len(m.queue)))
	for i := range m.queue {
		b = binary.AppendVarint(b, m.queue[i].ticket)
		text(m.queue[i].member)
	}
	var few [8]string // so that no list is allocated: this is called for each move of an exploration
	for _, client := range sorted(few[:0], m.signs) {
		text(client)
		text(m.signs[client].text)
		number(m.signs[client].until)
	}
	for _, client := range sorted(few[:0], m.Hears) {
		if m.Hears[client] {
			text(client)
		}
	}
	return b
}

// sorted appends the keys of a map in their order.
func sorted[V any](names []string, of map[string]V) []string {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Clean says whether the master has neither a vote nor a place.
func (m *Master) Clean() bool { return !m.held() && len(m.queue) == 0 }

// Free says whether the master has no vote.
func (m *Master) Free() bool { return !m.held() }
