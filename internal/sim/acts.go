// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// run does one thing after the other until stop is closed.
func (o *operator) run(stop <-chan struct{}) {
	for {
		select {
		case <-time.After(time.Duration(o.rnd.ExpFloat64() * float64(o.w.cfg.MaxTTL))):
		case <-stop:
			return
		}
		at, what := o.w.now(), "look"
		switch o.rnd.IntN(8) {
		case 0, 1, 2, 3:
			what = o.change()
		case 4, 5:
			what = o.step()
		case 6:
			what = o.haunt()
		}
		if _, err := o.heal(true); err != nil {
			what += ": " + err.Error()
		}
		o.w.mu.Lock()
		o.w.h.Faults = append(o.w.h.Faults, history.Fault{Nemesis: "operator", Start: at, End: o.w.now(), Detail: what})
		o.w.mu.Unlock()
	}
}

// change begins a change of masters, and sees it through by one process after the other.
func (o *operator) change() string {
	from, to := o.right, o.another(o.right)
	o.mu.Lock()
	o.from, o.targets = from, []*list{to}
	o.mu.Unlock()
	var away *member
	if o.rnd.IntN(3) == 0 {
		away = o.w.members[o.rnd.IntN(len(o.w.members))]
		away.setAway(true)
		o.did(ActAway)
	}
	defer func() {
		if away != nil {
			o.haunt()
			away.setAway(false)
		}
	}()
	text := fmt.Sprintf("change of %v %v to %v %v", from.masters, from.ttl, to.masters, to.ttl)
	for try := range 8 {
		if over, err := o.goOn(try, true); over {
			return text
		} else if err != nil {
			text += "; " + err.Error()
		}
	}
	return text + "; given up for now"
}

// forget empties a master of the change that is under way, soon, now and then.
func (o *operator) forget(soon *sync.WaitGroup) {
	l := o.from
	if o.rnd.IntN(3) == 0 {
		l = o.targets[o.rnd.IntN(len(o.targets))]
	}
	may := slices.DeleteFunc(slices.Clone(l.masters), func(i int) bool { return !slices.Contains(o.w.forgetful, i) })
	if len(may) == 0 || o.rnd.IntN(2) == 0 {
		return
	}
	m, wait, crash := o.w.masters[may[o.rnd.IntN(len(may))]], time.Duration(o.rnd.Int64N(int64(o.w.cfg.MaxTTL))), o.rnd.IntN(2) == 0
	soon.Go(func() {
		time.Sleep(wait)
		if m.Flush(); crash {
			m.Restart()
		}
		o.did(ActForgot)
	})
}

// goOn has one process work on the change that is under way, with a rival now and then. It says whether the change is over.
func (o *operator) goOn(try int, rough bool) (over bool, err error) {
	from, target, f := o.from, o.targets[o.rnd.IntN(len(o.targets))], fate{}
	if rough && try < 6 {
		f = o.fate()
	}
	if o.right != from {
		target = o.right
	}
	var rival sync.WaitGroup
	defer rival.Wait()
	if rough {
		o.forget(&rival)
	}
	move := func(f fate, to *list) error {
		return o.command(f, false, rough, func(ctx context.Context, l func(*list) admin.List) error {
			return admin.Reconfigure(ctx, l(from), l(to), nil)
		})
	}
	cancel := func(f fate) error {
		return o.command(f, false, rough, func(ctx context.Context, l func(*list) admin.List) error {
			return admin.Cancel(ctx, l(from))
		})
	}
	if rough && try < 4 && o.rnd.IntN(4) == 0 {
		o.compete(&rival, cancel, move)
	}
	if try > 0 && o.isRight(from) && o.rnd.IntN(3) == 0 {
		err = cancel(f)
		rival.Wait()
		// A rival that lived longer may have begun again.
		if err == nil && cancel(fate{}) == nil && o.isRight(from) {
			o.did(ActCancelled)
			o.end()
			return true, nil
		}
		return false, err
	}
	err = move(f, target)
	rival.Wait()
	if err == nil && o.isRight(target) {
		o.did(ActChanged)
		if try > 0 {
			o.did(ActResumed)
		}
		o.end()
		return true, nil
	}
	return false, err
}

// compete has another process cancel the change that is under way, or go to another list, soon.
func (o *operator) compete(soon *sync.WaitGroup, cancel func(fate) error, move func(fate, *list) error) {
	o.did(ActRival)
	g, wait := o.fate(), time.Duration(o.rnd.Int64N(int64(o.w.cfg.MaxTTL)))
	do := func() { _ = cancel(g) }
	if o.rnd.IntN(2) == 0 {
		other := o.another(o.from)
		o.mu.Lock()
		o.targets = append(o.targets, other)
		o.mu.Unlock()
		do = func() { _ = move(g, other) }
	}
	soon.Go(func() {
		time.Sleep(wait)
		do()
	})
}

func (o *operator) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from, o.targets = nil, nil
}

// heal looks at the right list. Where its masters need an operator's word they are given it, and a change that cannot go on is
// abandoned for it. It says whether all masters vote.
func (o *operator) heal(rough bool) (all bool, err error) {
	var s *admin.Status
	err = o.command(fate{}, false, rough, func(ctx context.Context, l func(*list) admin.List) error {
		ctx, cancel := context.WithTimeout(ctx, o.right.wait()+6*time.Second) // a recovery by others is given 5 s
		defer cancel()
		if s, err = admin.AwaitVotes(ctx, l(o.right), nil); s != nil {
			return nil
		}
		return err
	})
	if err == nil && s.Standing == admin.AllVote && o.from != o.right {
		o.end() // the new list votes, if not by that change: an init began it again
	}
	if err != nil || s.Standing == admin.AllVote {
		return err == nil && o.from == nil, err
	}
	switch {
	case s.Standing == admin.Changing && o.from == nil: // what is left of one that is over
		if o.command(fate{}, false, rough, func(ctx context.Context, l func(*list) admin.List) error {
			return admin.Cancel(ctx, l(o.right))
		}) == nil {
			return false, nil
		}
	case s.Standing == admin.Changing:
		// As long as the change can go on or be cancelled, it is.
		for try := range 3 {
			if over, _ := o.goOn(6+try, rough); over {
				return false, nil
			}
		}
	case s.Standing != admin.NeedsInit:
		return false, nil
	}
	return false, o.init(rough)
}

func (o *operator) init(rough bool) (err error) {
	var opts []admin.InitOption
	right := o.right
	init := func(f fate) error {
		return o.command(f, true, rough, func(ctx context.Context, l func(*list) admin.List) error {
			return admin.Init(ctx, l(right), nil, opts...)
		})
	}
	for try := range 8 {
		f := o.fate()
		if try > 3 || !rough {
			f = fate{}
		}
		var other sync.WaitGroup
		if rough && o.rnd.IntN(3) == 0 {
			o.did(ActTwice)
			g := o.fate()
			other.Go(func() { _ = init(g) })
		}
		err = init(f)
		other.Wait()
		switch {
		case err == nil:
			o.did(ActInit)
			if len(opts) > 0 {
				o.did(ActAbandoned)
				o.end()
			}
			return nil
		case (errors.Is(err, redlock.ErrUnfinished) || errors.Is(err, redlock.ErrConfig)) && opts == nil:
			// No process of the change may go on, nor anything that it sent arrive.
			time.Sleep(time.Until(o.late))
			opts = []admin.InitOption{admin.AbandonChange}
		}
	}
	return err
}

// votes says whether every master of the right list has a record that says that it votes.
func (o *operator) votes() bool {
	for _, i := range o.right.masters {
		if rs, err := membership.ParseRecordState(o.w.recordState(i)); err != nil || rs.Phase != membership.Voting || rs.Epoch.ID != o.right.id {
			return false
		}
	}
	return true
}

// step moves the clock of one master, when the clocks can have been compared: all masters vote, and the last step is long over.
// Then some clients start, or all of them, none of which saw it.
func (o *operator) step() string {
	if !o.votes() || time.Since(o.stepped) < 4*o.w.cfg.MaxTTL {
		return "look"
	}
	members := slices.Clone(o.w.members)
	o.rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	m := o.w.masters[o.right.masters[o.rnd.IntN(len(o.right.masters))]]
	// Never so little that it is within what readings over a rough network allow.
	by := time.Second + time.Duration(o.rnd.Int64N(int64(30*time.Second)))
	if o.rnd.IntN(4) == 0 {
		by = -min(by, 2*time.Second)
	}
	if o.rnd.IntN(2) == 0 {
		o.did(ActUnseen)
		for _, c := range members {
			c.restart(time.Now().Add(100*time.Millisecond + time.Duration(o.rnd.Int64N(int64(100*time.Millisecond)))))
		}
		time.Sleep(80 * time.Millisecond)
	} else {
		members = members[:1+o.rnd.IntN(len(members))]
		defer func() {
			for _, c := range members {
				c.restart(time.Now())
			}
		}()
	}
	o.did(ActStep)
	m.StepClock(by)
	o.mu.Lock()
	o.stepped = time.Now()
	o.mu.Unlock()
	return fmt.Sprintf("clock of %s stepped by %v", m.Name(), by)
}

// haunt restarts masters that no list of now has: with their data, with none, or with what they once had.
func (o *operator) haunt() string {
	text := "restart"
	for i, m := range o.w.masters {
		used := slices.Contains(o.right.masters, i) || o.from != nil && slices.Contains(o.from.masters, i) ||
			slices.ContainsFunc(o.targets, func(l *list) bool { return slices.Contains(l.masters, i) })
		if !used {
			o.did(ActHaunted)
			text += " " + m.Name()
			switch o.rnd.IntN(4) {
			case 0:
				m.Restart()
			case 1:
				m.Flush()
			case 2:
				m.Crash()
				m.Promote(o.old[i])
				m.Restart()
			case 3:
				m.Crash()
				m.Flush()
				m.Restart()
			}
		}
		if o.rnd.IntN(3) == 0 {
			o.old[i] = m.Snapshot()
		}
	}
	return text
}

// settle brings what is unfinished to an end, on a network without faults: anything else is a dead end.
func (o *operator) settle() error {
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if err != nil {
		return err
	}
	time.Sleep(time.Until(o.late))
	for try := range 12 {
		if o.from != nil {
			_, err = o.goOn(6+try, false)
		}
		all, err2 := o.heal(false)
		if all {
			return nil
		}
		err = errors.Join(err, err2)
	}
	for i := range o.w.masters {
		err = errors.Join(err, fmt.Errorf("m%d: %s", i, o.w.recordState(i)))
	}
	return fmt.Errorf("sim: a dead end of %v, epoch %d.%016x, from %v: %w", o.right.masters, o.number, uint64(o.right.id), o.from, err)
}
