// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"cmp"
	"slices"
)

// rising finds numbers that fell. It is given sightings in the order of their calls, and keeps only what later ones can be compared with: the
// largest number of each key whose sighting has returned, and the sightings that have not.
//
// A number fell if it is smaller than one whose sighting had returned before this one was called. If the intervals of two sightings touch,
// either may have come first, so neither fell. A number that is seen a second time has not fallen, if nothing larger had returned before.
type rising[K comparable, R any] struct {
	waiting []sighting[K, R] // those that had not returned before the last call, by return
	tops    map[K]top[R]
	landed  func(sighting[K, R]) // called with each sighting once everything is known that was called by its return; may be nil

	inverted int // how many returned after one with a larger number
}

// sighting is a number that was seen at some instant of the closed interval [call, ret].
type sighting[K comparable, R any] struct {
	key       K
	call, ret int64
	value     int64
	fell      bool // set by see
	record    R
}

// top is the largest number of a key. Of equal numbers it is the first to return.
type top[R any] struct {
	record      R // first, so that an empty one takes no memory
	call, value int64
}

// see adds a sighting. It returns the larger number above which s fell, or the first earlier sighting of the same number, or neither.
func (r *rising[K, R]) see(s sighting[K, R]) (above, same *top[R]) {
	r.pass(s.call)
	if t, ok := r.tops[s.key]; ok && t.value > s.value {
		above, s.fell = &t, true
	} else if ok && t.value == s.value {
		same = &t
	}
	i, _ := slices.BinarySearchFunc(r.waiting, s.ret, func(w sighting[K, R], ret int64) int {
		if w.ret <= ret {
			return -1
		}
		return 1
	})
	if above == nil && same == nil {
		same = r.equal(s)
	}
	r.waiting = slices.Insert(r.waiting, i, s)
	return above, same
}

// equal returns the sighting among those waiting that has the key and number of s, and was called first.
func (r *rising[K, R]) equal(s sighting[K, R]) (first *top[R]) {
	for _, w := range r.waiting {
		if w.key == s.key && w.value == s.value && (first == nil || w.call < first.call) {
			first = &top[R]{w.record, w.call, w.value}
		}
	}
	return first
}

// pass lets go of the sightings that returned before t.
func (r *rising[K, R]) pass(t int64) {
	n, _ := slices.BinarySearchFunc(r.waiting, t, func(w sighting[K, R], t int64) int { return cmp.Compare(w.ret, t) })
	if n == 0 {
		return
	}
	if r.tops == nil {
		r.tops = map[K]top[R]{}
	}
	for _, w := range r.waiting[:n] {
		t, ok := r.tops[w.key]
		if !ok || w.value > t.value {
			r.tops[w.key] = top[R]{w.record, w.call, w.value}
		} else if w.value < t.value {
			r.inverted++
		}
		if r.landed != nil {
			r.landed(w)
		}
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
}
