// SPDX-License-Identifier: Apache-2.0

// Package digest makes a small history of a whole run, and answers from it what needs the end of the run: the checkers healed, availability,
// resources and harness, and what the faults cost. Each finds in the digest what it would find in the whole history: what it reads, Digest keeps.
package digest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Digest makes a small history of a whole run, for the questions that need the end of the run: Healed, Costs, Recovery, GrantedShare,
// Availability, Resources and Harness find in it what they would find in the whole history. It has Header, Faults, Votes, Pulses and Findings
// of the run, and of the rest
//   - each probe after the last fault, and each key that was found after it or has no expiry;
//   - of each lock one lock call, the first call and the first grant after the last fault, and the operation that touched it last;
//   - the first grant in each tenth of a second, in each half second that counts for GrantedShare, and after the end of each fault;
//   - the first grant to the harness in each window of Services, and its first and last attempt.
//
// So it grows by some 15 operations for each second of a run. It is no history in which exclusion could be judged.
type Digest struct {
	run    *history.History
	heal   int64   // see Healed
	healed int64   // see Recovery
	ends   []int64 // of the faults that ended
	from   int64   // see GrantedShare
	chosen map[choice]history.Op
	probes []history.Op
	keys   []history.Key
}

// choice says what an operation is kept for. Only one is kept for each.
type choice struct {
	why  reason
	kind history.Kind
	lock string
	nth  int64
}

type reason int

const (
	ofLock reason = iota
	askedAgain
	afterFaults
	touchedLast
	inTenth
	inHalf
	afterFault
	inService
	firstService
	lastService
)

// New returns the Digest of a run of which no chapter has been added.
func New(run *history.History) *Digest {
	d := &Digest{run: run, heal: healTime(run), chosen: map[choice]history.Op{}}
	for _, f := range run.Faults {
		if f.End != history.Never {
			d.ends = append(d.ends, f.End)
		}
	}
	slices.Sort(d.ends)
	d.healed = lastEnd(run)
	d.from, _ = underFaults(run)
	return d
}

// Add adds a chapter.
func (d *Digest) Add(h *history.History) {
	for _, k := range h.Keys {
		if mayStay(k, d.heal) {
			d.keys = append(d.keys, k)
		}
	}
	for _, op := range h.Own() {
		if t, ok := touches(op); ok {
			id := choice{why: touchedLast, lock: op.Lock}
			was, known := d.chosen[id]
			if last, _ := touches(was); !known || t > last {
				d.chosen[id] = op
			}
		}
		if op.Kind == history.KindService {
			d.addService(op)
		}
		if op.Kind != history.KindLock && op.Kind != history.KindProbe {
			continue
		}
		if op.Kind == history.KindProbe && op.Call >= d.heal {
			d.probes = append(d.probes, op)
		}
		d.first(choice{why: ofLock, lock: op.Lock}, op)
		if asked := (choice{why: askedAgain, lock: op.Lock}); op.Return >= d.healed {
			if _, ok := d.chosen[asked]; !ok { // operations come in the order of their calls
				d.chosen[asked] = op
			}
		}
		if op.Outcome == history.OK {
			d.addGrant(op)
		}
	}
}

func (d *Digest) addGrant(op history.Op) {
	d.first(choice{why: inTenth, kind: op.Kind, nth: op.Return / costWindow}, op)
	if op.Return >= d.from {
		d.first(choice{why: inHalf, kind: op.Kind, nth: (op.Return - d.from) / availabilityWindow}, op)
	}
	ended, _ := slices.BinarySearch(d.ends, op.Return+1)
	d.first(choice{why: afterFault, kind: op.Kind, nth: int64(ended)}, op)
	if op.Return >= d.healed {
		d.first(choice{why: afterFaults, lock: op.Lock}, op)
	}
}

func (d *Digest) addService(op history.Op) {
	if _, ok := d.chosen[choice{why: firstService}]; !ok {
		d.chosen[choice{why: firstService}] = op
	}
	d.chosen[choice{why: lastService}] = op
	if op.Outcome == history.OK {
		d.first(choice{why: inService, nth: op.Return / serviceWindow}, op)
	}
}

// first keeps op unless an operation is kept that returned before.
func (d *Digest) first(id choice, op history.Op) {
	if was, ok := d.chosen[id]; !ok || op.Return < was.Return {
		d.chosen[id] = op
	}
}

// History returns the small history.
func (d *Digest) History() *history.History {
	ops := map[history.Op]bool{}
	for _, op := range d.chosen {
		ops[op] = true
	}
	for _, op := range d.probes {
		ops[op] = true
	}
	h := *d.run
	h.Part = nil
	h.Ops = slices.SortedFunc(maps.Keys(ops), func(a, b history.Op) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Return, b.Return), cmp.Compare(a.Client, b.Client))
	})
	h.Keys = d.keys
	return &h
}

// availabilityWindow is the unit of GrantedShare.
const availabilityWindow = int64(500 * time.Millisecond)

// underFaults returns the time from the first fault to the end of the last fault that ended. It is empty if there were no faults.
func underFaults(h *history.History) (from, to int64) {
	for i, f := range h.Faults {
		if i == 0 || f.Start < from {
			from = f.Start
		}
		to = max(to, from)
		if f.End != history.Never {
			to = max(to, f.End)
		}
	}
	return from, to
}

// GrantedShare returns the share of the half seconds between the first fault and the end of the last in which a lock was granted, and how long
// that time was. The share is 1 if it was shorter than half a second.
func GrantedShare(h *history.History) (share float64, lasted time.Duration) {
	from, to := underFaults(h)
	lasted = time.Duration(to - from)
	n := (to - from) / availabilityWindow
	if n < 1 {
		return 1, lasted
	}
	granted := map[int64]bool{}
	for _, op := range h.Ops {
		if op.Kind == history.KindLock && op.Outcome == history.OK && op.Return >= from {
			if i := (op.Return - from) / availabilityWindow; i < n {
				granted[i] = true
			}
		}
	}
	return float64(len(granted)) / float64(n), lasted
}
