// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	// Long, because it has one case for each fault.
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
	names := w.struck()
	if len(names) == 0 {
		return
	}
	// Each strikes once before any strikes twice.
	due := slices.Compact(slices.Clone(names))
	rnd.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
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
			w.mu.Lock()
			w.h.Faults = append(w.h.Faults, history.Fault{Nemesis: f.nemesis, Start: f.at, End: w.now(), Detail: f.detail})
			w.stats.Faults++
			w.mu.Unlock()
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
			name := names[rnd.IntN(len(names))]
			if len(due) > 0 {
				name, due = due[0], due[1:]
			}
			f := w.strike(name, rnd, w.forgetful[j], old[j])
			if w.cfg.Progress != nil {
				w.cfg.Progress(time.Since(w.start), w.stats.Faults)
			}
			faults = append(faults, running{f, w.now(), time.Now().Add(time.Duration(rnd.Int64N(int64(w.cfg.MaxTTL))))})
			mean := w.cfg.MaxTTL
			if len(due) > 0 { // soon enough for all of them
				mean = min(mean, w.cfg.Duration/time.Duration(3*len(w.cfg.Nemeses)))
			}
			next = time.Now().Add(time.Duration(rnd.ExpFloat64() * float64(mean)))
		}
	}
}

// always notes what goes wrong all the time, a little here and there, rather than at once and for a while.
func (w *world) always() {
	for _, f := range []history.Fault{
		{Nemesis: "N8", Detail: "one holder in fifty stops for about a TTL, and works on without a look at its lease"},
		{Nemesis: "N10", Detail: "one command in a thousand is held back, and six in a thousand are late"},
		{Nemesis: "N11", Detail: "of a thousand commands one is executed without a reply, and one is lost"},
		{Nemesis: "N15", Detail: "a minority of the masters has clocks at 0.5 to 2 times their rate"},
	} {
		if w.cfg.does(f.Nemesis) {
			f.End = w.now()
			w.h.Faults = append(w.h.Faults, f)
			w.stats.Faults++
		}
	}
}

// struck is the nemeses of the run that strike now and then, most of them equally often.
func (w *world) struck() []string {
	var names []string
	for _, name := range w.cfg.Nemeses {
		switch name {
		case "N8", "N10", "N11", "N15":
		case "N2": // costs a whole wait
			names = append(names, name)
		default:
			names = append(names, name, name, name, name)
		}
	}
	return names
}

// strike lets one thing go wrong. forgetful is a master that may lose its data, old what it once had.
func (w *world) strike(nemesis string, rnd *rand.Rand, forgetful int, old *nodetest.Data) fault {
	i := rnd.IntN(len(w.masters))
	any := w.masters[i]
	victim := w.masters[forgetful]
	nothing := func() {}
	switch nemesis {
	case "N1":
		any.Crash()
		return fault{nemesis, any.Name() + " killed, data kept", any.Restart}
	case "N2":
		for _, m := range w.masters {
			m.Crash()
		}
		return fault{nemesis, "all killed, data kept", func() {
			for _, m := range w.masters {
				m.Restart()
			}
		}}
	case "N4":
		victim.Crash()
		victim.Flush()
		return fault{nemesis, victim.Name() + " killed, data lost", victim.Restart}
	case "N7":
		any.Pause()
		return fault{nemesis, any.Name() + " stopped", any.Resume}
	case "kill-client":
		return w.killClient(rnd)
	case "N9":
		return w.partition(rnd)
	case "N12":
		var wires []*wire
		for _, m := range w.members {
			wires = append(wires, m.wires[i])
		}
		slow := time.Duration(rnd.Int64N(int64(30 * time.Millisecond)))
		return setAll(wires, nemesis, fmt.Sprintf("%s slow by %v", any.Name(), slow), func(x *wire) { x.slow = slow }, func(x *wire) { x.slow = 0 })
	case "N17":
		victim.Flush()
		return fault{nemesis, victim.Name() + " flushed", nothing}
	case "N19":
		victim.Crash()
		victim.Promote(old)
		return fault{nemesis, victim.Name() + " replaced by a replica that was behind", victim.Restart}
	case "N13":
		step := time.Duration(rnd.Int64N(int64(time.Minute))) - 30*time.Second
		any.StepClock(step)
		return fault{nemesis, fmt.Sprintf("clock of %s stepped by %v", any.Name(), step), nothing}
	default: // N16
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
