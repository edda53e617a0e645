// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"math/rand/v2"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// weights make a walk meet what matters. Uniform choice would spend all faults at once and let time pass ever again.
var weights = [kinds]int{
	Tick: 5, Look: 4, Act: 12, Post: 2, Deliver: 4, Drop: 1, Read: 12, Lose: 1, Restart: 1, Down: 1, Up: 3, Kill: 1, OwnJump: 1,
	Jump: 1, WriteNote: 4, Vote: 12, Confirm: 12, Hold: 4, Extend: 4, TopUp: 3,
}

// Walk makes one random run of so many steps, the same for the same seed, or a shorter one when the last step breaks
// something: then it returns a *ViolationError. It does not look for dead ends.
func (w World) Walk(seed uint64, steps int) (Path, error) {
	if err := w.init(); err != nil {
		return Path{}, err
	}
	y := &system{driver: newDriver(&w)}
	return explore.Walk(y, rand.New(rand.NewPCG(seed, 0)), w.start(), steps, func(step *Step) int { return weights[step.Kind] })
}
