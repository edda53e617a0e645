// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/node/nodetest"
)

// fault is one thing that goes wrong for a while: begin it, heal it.
type fault struct {
	nemesis string
	detail  string
	heal    func()
}

// nemesis makes something go wrong every few hundred milliseconds, often while something else still is, until stop is
// closed; then it heals all.
func (w *world) nemesis(stop <-chan struct{}) {
	rnd := w.rand("nemesis")
	var old []*nodetest.Data
	for _, i := range w.forgetful {
		old = append(old, w.masters[i].Snapshot())
	}
	type running struct {
		fault
		at  int64
		end time.Time
	}
	var faults []running
	next := time.Now()
	for {
		var wake <-chan time.Time
		at := next
		for _, f := range faults {
			if f.end.Before(at) {
				at = f.end
			}
		}
		timer := time.NewTimer(time.Until(at))
		wake = timer.C
		done := false
		select {
		case <-wake:
		case <-stop:
			done = true
		}
		timer.Stop()
		keep := faults[:0]
		for _, f := range faults {
			if !done && f.end.After(time.Now()) {
				keep = append(keep, f)
				continue
			}
			f.heal()
			w.h.Faults = append(w.h.Faults, history.Fault{Nemesis: f.nemesis, Start: f.at, End: w.now(), Detail: f.detail})
			w.stats.Faults++
		}
		faults = keep
		if done {
			return
		}
		if !next.After(time.Now()) {
			for j, i := range w.forgetful {
				if rnd.IntN(4) == 0 {
					old[j] = w.masters[i].Snapshot()
				}
			}
			j := rnd.IntN(len(w.forgetful))
			f := w.begin(rnd, w.forgetful[j], old[j])
			faults = append(faults, running{f, w.now(), time.Now().Add(time.Duration(rnd.Int64N(int64(w.cfg.MaxTTL))))})
			next = time.Now().Add(time.Duration(rnd.ExpFloat64() * float64(w.cfg.MaxTTL)))
		}
	}
}

// begin lets one thing go wrong. forgetful is a master that may lose its data, old what it once had.
func (w *world) begin(rnd *rand.Rand, forgetful int, old *nodetest.Data) fault {
	i := rnd.IntN(len(w.masters))
	any := w.masters[i]
	victim := w.masters[forgetful]
	nothing := func() {}
	kinds := 8
	if w.cfg.Clocks == Wild {
		kinds = 10
	}
	kind := rnd.IntN(kinds)
	if kind == 1 && rnd.IntN(4) > 0 {
		kind = 0 // all at once costs a whole wait: rarer
	}
	switch kind {
	case 0:
		any.Crash()
		return fault{"N1", any.Name() + " killed, data kept", any.Restart}
	case 1:
		for _, m := range w.masters {
			m.Crash()
		}
		return fault{"N2", "all killed, data kept", func() {
			for _, m := range w.masters {
				m.Restart()
			}
		}}
	case 2:
		victim.Crash()
		victim.Flush()
		return fault{"N4", victim.Name() + " killed, data lost", victim.Restart}
	case 3:
		any.Pause()
		return fault{"N7", any.Name() + " stopped", any.Resume}
	case 4:
		return w.partition(rnd)
	case 5:
		var wires []*wire
		for _, m := range w.members {
			wires = append(wires, m.wires[i])
		}
		slow := time.Duration(rnd.Int64N(int64(30 * time.Millisecond)))
		return setAll(wires, "N12", fmt.Sprintf("%s slow by %v", any.Name(), slow), func(x *wire) { x.slow = slow }, func(x *wire) { x.slow = 0 })
	case 6:
		victim.Flush()
		return fault{"N17", victim.Name() + " flushed", nothing}
	case 7:
		victim.Crash()
		victim.Promote(old)
		return fault{"N19", victim.Name() + " replaced by a replica that was behind", victim.Restart}
	case 8:
		step := time.Duration(rnd.Int64N(int64(time.Minute))) - 30*time.Second
		any.StepClock(step)
		return fault{"N13", fmt.Sprintf("clock of %s stepped by %v", any.Name(), step), nothing}
	default:
		m := w.members[rnd.IntN(len(w.members))]
		jump := time.Duration(rnd.Int64N(int64(2 * w.cfg.MaxTTL)))
		m.clock.jumped.Add(int64(jump))
		return fault{"N16", fmt.Sprintf("client %d suspended for %v", m.id, jump), nothing}
	}
}

// partition cuts one client, or all, from some masters.
func (w *world) partition(rnd *rand.Rand) fault {
	masters := rnd.Perm(len(w.masters))[:1+rnd.IntN(len(w.masters))]
	members := w.members
	if rnd.IntN(2) == 0 {
		members = []*member{members[rnd.IntN(len(members))]}
	}
	var wires []*wire
	for _, m := range members {
		for _, i := range masters {
			wires = append(wires, m.wires[i])
		}
	}
	return setAll(wires, "N9", fmt.Sprintf("%d clients cut from masters %v", len(members), masters),
		func(x *wire) { x.cut = true }, func(x *wire) { x.cut = false })
}

func setAll(wires []*wire, nemesis, detail string, on, off func(*wire)) fault {
	for _, x := range wires {
		x.set(on)
	}
	return fault{nemesis, detail, func() {
		for _, x := range wires {
			x.set(off)
		}
	}}
}
