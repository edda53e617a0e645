// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The maximum TTL and the drift that the commands have by themselves.
const (
	usualMaxTTL   = 30 * time.Second
	usualFactor   = 0.01
	usualConstant = 2 * time.Millisecond
)

// flags are those that a command needs besides the URLs to mean these terms.
func (t *Terms) flags() (s string) {
	if t.MaxTTL != usualMaxTTL {
		s += " --max-ttl " + t.MaxTTL.String()
	}
	if t.Factor != usualFactor || t.Constant != usualConstant {
		s += fmt.Sprintf(" --drift %v+%v", t.Factor, t.Constant)
	}
	return s + t.countFlag(" --node-count")
}

// flags are those of v.Terms, and the namespace.
func (v *View) flags() string { return v.flagsOf(v.Terms) }

// flagsOf are none for terms that are not known.
func (v *View) flagsOf(t *Terms) (s string) {
	if t != nil {
		s = t.flags()
	}
	if v.Namespace != "" {
		s += " --namespace " + v.Namespace
	}
	return s
}

// targetFlags are those of t as the list that a change leads to, where they are not those of from, which they are by default.
func (t *Terms) targetFlags(from *Terms) (s string) {
	if t.MaxTTL != from.MaxTTL {
		s += " --to-max-ttl " + t.MaxTTL.String()
	}
	if t.Factor != from.Factor || t.Constant != from.Constant {
		s += fmt.Sprintf(" --to-drift %v+%v", t.Factor, t.Constant)
	}
	return s + t.countFlag(" --to-node-count")
}

// countFlag is the flag for a list that Open refuses unless its number of masters is given.
func (t *Terms) countFlag(flag string) string {
	if n := len(t.Masters); n < 3 || n%2 == 0 {
		return fmt.Sprintf("%s %d", flag, n)
	}
	return ""
}

func statusCommand(v *View, t *Terms) string {
	s := StatusCommand + v.flagsOf(t)
	if t.Fixed {
		s += " --fixed" // init and reconfigure have no use for such a list
	}
	return s
}

// changeCommand is the command that changes from one list to the other, which may not be known. The same masters need no second list.
func (v *View) changeCommand(from, to *Terms) string {
	switch {
	case to == nil:
		return ChangeCommand + v.flagsOf(from)
	case slices.Equal(from.Masters, to.Masters):
		return RetimeCommand + v.flagsOf(from) + to.targetFlags(from)
	}
	return ChangeCommand + v.flagsOf(from) + to.targetFlags(from)
}

// advised are the lists of the change that a message is about: the one that it leaves, and the one that it leads to, or nil.
func (v *View) advised(a Action) (from, to *Terms) {
	i := a.Why.Master
	switch a.Why.Code {
	case Prepared:
		if before := PreparedFrom(v); before != nil {
			return before, v.Terms
		}
	case Moved:
		if left, err := ParseTerms(v.leftFor(-1)); err == nil && v.Goal == Init { // the change back leaves that one
			return left, v.Terms
		}
	case Foreign:
		if v.theirs(i) != "" {
			return v.Masters[i].Record.Terms, v.ours(i)
		}
	case Unfinished:
		if r := &v.Masters[i].Record; r.Terms != nil && r.Terms.ID != v.Terms.ID { // of another list
			to, _ = ParseTerms(r.Target)
			return r.Terms, to
		}
	}
	return v.Terms, v.onward()
}

// onward is the list to which a change from v.Terms leads that was begun, else v.Target. It is nil if nobody tells.
func (v *View) onward() *Terms {
	if i := UnfinishedChange(v); i >= 0 {
		if t, err := ParseTerms(v.Masters[i].Record.Target); err == nil {
			return t
		}
	}
	if v.Target != nil {
		return v.Target
	}
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.Intent.Target != (Epoch{}) {
			if t, err := ParseTerms(r.Target); err == nil {
				return t
			}
		}
	}
	return nil
}

// cancellable: Cancel can give up the change from v.Terms.
func (v *View) cancellable() bool {
	m := machine{v: v, rules: &shipped}
	return !m.rules.tooLate(m.survey().votes, v.Terms.Quorum())
}

// ours is the list that was given of which master i is one.
func (v *View) ours(i int) *Terms {
	if i >= 0 && i < len(v.Masters) && v.Masters[i].New && !v.Masters[i].Old {
		return v.Target
	}
	return v.Terms
}

// theirs are the flags with which a command means the list of master i, if that has the masters that were given and other values. Where a master has a
// record of the list that was given, the flags are right, and master i is one that was left behind.
func (v *View) theirs(i int) string {
	if i < 0 || i >= len(v.Masters) || v.Masters[i].Record.Terms == nil {
		return ""
	}
	t, ours := v.Masters[i].Record.Terms, v.ours(i)
	if t.ID == ours.ID || !slices.Equal(t.Masters, ours.Masters) || ours == v.Target && t.Fixed {
		return ""
	}
	if slices.ContainsFunc(v.Masters, func(at Master) bool { return at.Record.State.Epoch.ID == ours.ID }) {
		return ""
	}
	flags := t.targetFlags(ours)
	if ours != v.Target {
		flags = strings.ReplaceAll(flags, " --to-", " --")
	}
	if t.Fixed && !ours.Fixed {
		flags += " --fixed"
	}
	var do []string
	if flags != "" {
		do = append(do, "give"+flags)
	}
	if ours.Fixed && !t.Fixed {
		do = append(do, "leave --fixed out")
	}
	return strings.Join(do, ", and ")
}

// moves: a change can lead from the list of master i to v.Terms, which have the same masters. A quorum votes in it.
func (v *View) moves(i int) bool {
	e, n := v.Masters[i].state().Epoch, 0
	for j := range v.Masters {
		if rs := v.Masters[j].state(); v.Masters[j].Old && rs.Phase == Voting && rs.Epoch == e {
			n++
		}
	}
	return v.Masters[i].Old && n >= v.Terms.Quorum() && !v.Terms.Fixed && !v.Masters[i].Record.Terms.Fixed
}
