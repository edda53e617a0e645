// SPDX-License-Identifier: Apache-2.0

package waiting

// This file is for the explorer of package internal/model/waiting, which runs the machine as it is. Nothing else calls it.

// Of returns what the machine has of master i, as bits, and Rest the machine without what it has of any master.
func (m Machine) Of(i int) (bits byte) {
	for k, set := range [...]uint64{m.asked, m.wakes.woken, m.wakes.heard, m.wakes.free, m.wakes.foreign} {
		bits |= byte(set>>i&1) << k
	}
	return bits
}

// Rest is described at Of. It has no pauses: how long they are changes nothing in a world without time.
func (m Machine) Rest() Machine {
	m.retries, m.place.pause, m.refused = 0, 0, 0
	m.asked, m.wakes.woken, m.wakes.heard, m.wakes.free, m.wakes.foreign = 0, 0, 0, 0, 0
	return m
}
