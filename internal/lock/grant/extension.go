// SPDX-License-Identifier: Apache-2.0

package grant

import "math/bits"

// Extension is one extend of one grant while the masters answer it. It is not safe for
// concurrent use.
type Extension struct {
	voters    uint64 // the masters whose yes counts
	known     uint64 // those of them that are known to have voted: see Grant.Places for the others
	silent    uint64 // the masters whose yes will count if they answer the acquire with a vote
	confirmed uint64 // the masters that had the vote
	missing   uint64 // the masters that did not have it
}

// NewExtension returns an extend that nobody has answered. votes and places are those of the grant. silent are the masters
// that have not answered the acquire.
func NewExtension(votes, places, silent uint64) Extension {
	return Extension{voters: votes | places, known: votes, silent: silent}
}

// Silent are the masters of which it is open whether their yes counts.
func (e *Extension) Silent() uint64 { return e.silent }

// Recount takes in what masters have answered to the acquire since the extend began: votes, places
// and silent are those of now. A master answers the acquire before it answers the extend.
func (e *Extension) Recount(votes, places, silent uint64) {
	e.voters |= (votes | places) & e.silent
	e.known |= votes & e.silent
	e.silent &= silent
}

// Forget takes master i for one whose vote did not count before: see [Grant.Seen].
func (e *Extension) Forget(i int) {
	e.voters &^= 1 << i
	e.known &^= 1 << i
}

// Answer counts the answer of master i: whether it had the vote.
func (e *Extension) Answer(i int, intact bool) {
	if intact {
		e.confirmed |= 1 << i
	} else {
		e.missing |= 1 << i
	}
}

// Confirmed are the masters that had a vote that counts.
func (e *Extension) Confirmed() uint64 { return e.confirmed & e.voters }

// Decided says whether no answer can change the [Result] any more. answered are the masters that have answered in whatever way.
func (e *Extension) Decided(answered uint64, need int) bool {
	confirmed, open := e.Confirmed(), (e.voters|e.silent)&^answered
	if bits.OnesCount64(confirmed) >= need {
		return true
	}
	if bits.OnesCount64(confirmed|open) >= need {
		return false
	}
	// It fails. Those that have not answered may say that the vote is missing. See Grant.Left.
	places := e.voters &^ e.known
	least, most := (e.known|e.silent)&^(e.missing|open)|places, (e.known|e.silent)&^e.missing|places
	return (bits.OnesCount64(least) < need) == (bits.OnesCount64(most) < need)
}

// Follow says what an extend that won does to the masters in set. The vote is put back on
// the masters in topUp, where it is missing. The vote of the masters in confirm counts from
// now on: they have it although it was not known, or did not count.
func (e *Extension) Follow(set uint64) (topUp, confirm uint64) {
	return set & e.missing, set & e.confirmed &^ e.known &^ e.missing
}
