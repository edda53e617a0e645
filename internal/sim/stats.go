// SPDX-License-Identifier: Apache-2.0

package sim

// Stats is what a run did.
type Stats struct {
	// Operations are rounds, unlocks and extends, re-entry included: all that is put to the masters for a caller.
	Operations, Grants, Reentries, Extends, SecondRounds, Lost uint64
	Commands                                                   uint64 // that masters were sent, before losses
	Hands                                                      uint64 // votes that masters handed to waiters, by messages
	Faults                                                     int
	Acts                                                       map[string]int // of operators
	Killed                                                     map[string]int // processes of clients, by what they did at the time
	Left                                                       Left
}

// kill counts a process that was killed.
func (s *Stats) kill(doing string) { s.Killed = plus(s.Killed, doing, 1) }

// plus adds n to counts[key]. It makes the map.
func plus(counts map[string]int, key string, n int) map[string]int {
	if counts == nil {
		counts = make(map[string]int)
	}
	counts[key] += n
	return counts
}

// Add adds o to s.
func (s *Stats) Add(o Stats) {
	s.Operations += o.Operations
	s.Grants += o.Grants
	s.Reentries += o.Reentries
	s.Extends += o.Extends
	s.SecondRounds += o.SecondRounds
	s.Lost += o.Lost
	s.Commands += o.Commands
	s.Hands += o.Hands
	s.Faults += o.Faults
	s.Left.Votes = append(s.Left.Votes, o.Left.Votes...)
	s.Left.Places = append(s.Left.Places, o.Left.Places...)
	s.Left.Debts = append(s.Left.Debts, o.Left.Debts...)
	for act, n := range o.Acts {
		s.Acts = plus(s.Acts, act, n)
	}
	for doing, n := range o.Killed {
		s.Killed = plus(s.Killed, doing, n)
	}
}
