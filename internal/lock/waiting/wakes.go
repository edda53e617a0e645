// SPDX-License-Identifier: Apache-2.0

package waiting

// Wakes are what has happened since the masters were asked last. The zero value asks nobody:
// a contender begins with [Wakes.Turn]. It is not safe for concurrent use.
type Wakes struct {
	askAll  bool   // all masters are to be asked
	behind  bool   // others were ahead in too many queues, in the last round
	woken   uint64 // the masters that woke the contender since they were asked
	heard   uint64 // the masters that published on Redisson's channel since they were asked
	free    uint64 // the masters that granted in the last round: the lock is free there
	foreign uint64 // the masters where Redisson held the lock in the last round
}

// Turn begins the turn of the next caller in the line, who asks all masters.
func (w *Wakes) Turn() { w.askAll = true }

// Timer is the end of the time to wait without a wake: any message may have been lost, so
// all masters are to be asked.
func (w *Wakes) Timer() { w.askAll = true }

// Wake is a wake from the masters in set, which released the lock or vote again.
func (w *Wakes) Wake(set uint64) { w.woken |= set }

// Heard is a message of master i on Redisson's channel.
func (w *Wakes) Heard(i int) { w.heard |= 1 << i }

// HandOver is a release of the lock by this process. If no other process is ahead, all
// masters are to be asked, right behind the release. HandOver says whether that is so.
func (w *Wakes) HandOver() bool {
	if w.behind {
		return false
	}
	w.askAll = true
	return true
}

// Behind says whether others waited before us on too many masters in the last round.
func (w *Wakes) Behind() bool { return w.behind }

// Refused is the end of a round that gave no lease. free are the masters that granted in
// vain, foreign those where Redisson holds the lock. behind says that others wait before us
// on too many masters.
func (w *Wakes) Refused(free, foreign uint64, behind bool) {
	w.free, w.behind = free, behind
	if behind {
		w.askAll = false // what this process released is for others
	}
	w.Follow(foreign)
}

// Follow replaces the set of masters where Redisson holds the lock.
func (w *Wakes) Follow(foreign uint64) { w.foreign = foreign }

// Foreign says whether Redisson holds the lock somewhere. Redisson's release wakes no queue,
// so its channel must be followed then.
func (w *Wakes) Foreign() bool { return w.foreign != 0 }

// Ready says whether a round is of use now.
func (w *Wakes) Ready() bool { return w.askAll || w.mayGrant() != 0 }

// All says whether all masters are to be asked.
func (w *Wakes) All() bool { return w.askAll }

// Due takes out the masters that a round is to ask now. all are all masters, asked are those
// that the round has asked already.
func (w *Wakes) Due(all, asked uint64) uint64 {
	set := w.mayGrant()
	if w.askAll {
		set, w.askAll = all, false
	}
	set &^= asked
	w.woken &^= set
	w.heard &^= set
	return set
}

// mayGrant are the masters that may grant the lock now: those that have woken the contender
// and, if there is one, those that granted in the last round. A message on Redisson's channel
// counts only where Redisson holds the lock. A Redisson holder may lack a vote on another
// master. The contender gets that vote and gives it back, and its own release would wake it.
func (w *Wakes) mayGrant() uint64 {
	set := w.woken | w.heard&w.foreign
	if set != 0 {
		set |= w.free
	}
	return set
}
