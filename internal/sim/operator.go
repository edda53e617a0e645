// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock/admin"
)

// What operators did in a run, for Stats.Acts. The harness counts them.
const (
	ActChanged   = "changes finished"
	ActResumed   = "of them resumed by another process"
	ActCancelled = "changes cancelled"
	ActAbandoned = "changes abandoned"
	ActRival     = "rivals at work"
	ActKilled    = "processes killed"
	ActHeld      = "processes stopped before a write"
	ActInit      = "inits finished"
	ActTwice     = "inits by two at once"
	ActStep      = "clock steps"
	ActFresh     = "clients opened just after a step"
	ActUnseen    = "clock steps that no client saw"
	ActHaunted   = "masters restarted that no list has"
	ActAway      = "clients cut off for a whole change"
	ActForgot    = "masters emptied in the middle of a change"
	ActBlind     = "processes that did not reach a master"
	ActOldList   = "clients started with a list that was left"
	ActEarlyList = "clients started early with the next list"
)

// list is a list of masters with the maximum TTL of its locks.
type list struct {
	masters []int
	ttl     time.Duration
	id      membership.ID
}

func (l *list) wait() time.Duration { return l.ttl + 2*clock.DefaultDrift().Of(l.ttl) }

// operator changes the masters of a world, and is the one who knows which list is right.
type operator struct {
	w         *world
	rnd       *rand.Rand
	lists     []*list // all that were ever named
	old       []*nodetest.Data
	processes int
	stepped   time.Time

	mu      sync.Mutex
	right   *list
	number  int64     // of its epoch
	from    *list     // of a change that was begun and has not ended
	targets []*list   // of that change, one for each process that tried
	late    time.Time // until then a write of a process that is gone may arrive
	acts    map[string]int
	err     error
}

func (w *world) newOperator() *operator {
	o := &operator{w: w, rnd: w.rand("operator"), acts: make(map[string]int)}
	for _, m := range w.masters {
		o.old = append(o.old, m.Snapshot())
	}
	o.right = o.another(&list{})
	return o
}

func (o *operator) did(act string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts[act]++
}

// another draws a list that is not from. Only a minority of any list ever loses data, unless all masters may.
func (o *operator) another(from *list) *list {
	for {
		l := &list{masters: o.rnd.Perm(len(o.w.masters))[:3+2*o.rnd.IntN(2)], ttl: o.w.cfg.MaxTTL}
		switch n := o.rnd.IntN(6); {
		case n == 0 && len(from.masters) > 0: // the same masters with another maximum TTL
			l.masters = slices.Clone(from.masters)
		case n <= 2 && len(from.masters) == 3: // disjoint
			l.masters = slices.DeleteFunc(o.rnd.Perm(len(o.w.masters)), func(i int) bool { return slices.Contains(from.masters, i) })[:3]
		}
		if o.rnd.IntN(2) == 0 {
			l.ttl /= 2
		}
		slices.Sort(l.masters)
		forget, names := 0, []string(nil)
		for _, i := range l.masters {
			names = append(names, o.w.masters[i].Name())
			if slices.Contains(o.w.forgetful, i) {
				forget++
			}
		}
		drift := clock.DefaultDrift()
		terms, err := membership.NewTerms(names, l.ttl, drift.Factor, drift.Constant, false)
		if err != nil {
			panic(err)
		}
		l.id = terms.ID
		if l.id == from.id || forget > (len(l.masters)-1)/2 && !o.w.cfg.Amnesia {
			continue
		}
		for _, known := range o.lists {
			if known.id == l.id {
				return known
			}
		}
		o.mu.Lock()
		o.lists = append(o.lists, l)
		o.mu.Unlock()
		return l
	}
}

// choose is the list that a client is started with: the right one most of the time.
func (o *operator) choose(rnd *rand.Rand) (l *list, right bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := rnd.IntN(8)
	switch act := ActEarlyList; {
	case n == 0 && o.from != nil && o.right == o.from:
		o.acts[act]++
		return o.targets[rnd.IntN(len(o.targets))], false
	case n == 1:
		if l := o.lists[rnd.IntN(len(o.lists))]; l != o.right && !slices.Contains(o.targets, l) {
			o.acts[ActOldList]++
			return l, false
		}
	}
	return o.right, true
}

func (o *operator) isRight(l *list) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.right == l
}

// fate is what becomes of a process. The zero fate: it lives as long as it likes, up to a bound.
type fate struct {
	after time.Duration // killed then, if not 0
	write int           // killed as it sends this write, counted from 1, if not 0
	held  time.Duration // which arrives so much later
	blind int           // it does not reach this master, counted from 1, if not 0
}

func (o *operator) fate() (f fate) {
	if o.rnd.IntN(3) == 0 {
		f.blind = 1 + o.right.masters[o.rnd.IntN(len(o.right.masters))]
	}
	switch o.rnd.IntN(6) {
	case 0, 1:
		f.after = time.Duration(o.rnd.Int64N(int64(2*o.w.cfg.MaxTTL))) + 1
	case 2:
		f.write = 1 + o.rnd.IntN(14)
	case 3:
		f.write, f.held = 1+o.rnd.IntN(14), time.Duration(o.rnd.Int64N(int64(4*o.w.cfg.MaxTTL)))
	}
	return f
}

// command runs one process of an operator, and returns when that is over or dead. What a dead process sent still arrives.
func (o *operator) command(f fate, init, rough bool, do func(ctx context.Context, list func(*list) admin.List) error) error {
	o.mu.Lock()
	o.processes++
	p := o.w.newMember(1000 + o.processes)
	o.mu.Unlock()
	p.rough.Store(rough)
	if f.blind > 0 {
		o.did(ActBlind)
		p.wires[f.blind-1].away = true
	}
	life := 8*o.w.cfg.MaxTTL + 6*time.Second
	if f.after > 0 {
		life = f.after
	}
	ctx, kill := context.WithTimeout(context.Background(), life)
	defer kill()
	p.watch = o.watch(ctx, kill, f, init)
	nodes := make([]*nodetest.Node, len(o.w.masters))
	defer func() {
		for _, n := range nodes {
			if n != nil {
				_ = n.Close()
			}
		}
	}()
	err := do(ctx, func(l *list) admin.List {
		rl := admin.List{Options: p.options(l)}
		for _, i := range l.masters {
			if nodes[i] == nil {
				nodes[i] = p.node(nil, "operator", i)
			}
			rl.Nodes = append(rl.Nodes, nodes[i])
		}
		return rl
	})
	switch {
	case ctx.Err() != nil && f.held > 0 && f.write > 0:
		o.did(ActHeld)
	case ctx.Err() != nil && f != (fate{}):
		o.did(ActKilled)
	}
	return err
}

// watch looks at what a process writes into records. By its fate the process is killed at one of its writes, which may be held up, and
// nothing that it writes afterwards arrives.
func (o *operator) watch(ctx context.Context, kill func(), f fate, init bool) func(nodetest.Command, *nodetest.Fault) {
	var mu sync.Mutex
	writes := 0
	return func(cmd nodetest.Command, fault *nodetest.Fault) {
		if cmd.Name != "record" || len(cmd.Args) < 7 || cmd.Args[5] != membership.FieldState {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		writes++
		switch {
		case f.write > 0 && writes == f.write:
			fault.Delay += f.held
			o.mu.Lock()
			if at := time.Now().Add(fault.Delay); at.After(o.late) {
				o.late = at
			}
			o.mu.Unlock()
			kill()
		case f.write > 0 && writes > f.write, ctx.Err() != nil:
			fault.Lose = nodetest.LoseCommand
			return
		}
		o.sent(cmd.Args[6], init)
	}
}

// sent notes that a process has a master vote: from then on its list is the right one.
func (o *operator) sent(text string, init bool) {
	rs, err := membership.ParseRecordState(text)
	if err != nil || rs.Phase != membership.Voting {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch l := o.named(rs.Epoch.ID); {
	case init && l == o.right:
		o.number = rs.Epoch.Number
	case rs.Epoch.Number > o.number:
		o.right, o.number = l, rs.Epoch.Number
	case rs.Epoch.Number == o.number && l != o.right:
		o.err = errors.Join(o.err, fmt.Errorf("sim: two lists begin as epoch %d: %v and %v", o.number, o.right.masters, l.masters))
	}
}

func (o *operator) named(id membership.ID) *list {
	i := slices.IndexFunc(o.lists, func(l *list) bool { return l.id == id })
	return o.lists[i]
}
