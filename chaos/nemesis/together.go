// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/redlock-go/redlock/chaos/history"
)

// everything does three others at once, as part of this one.
func everything(s *strike) error {
	var others []Nemesis
	for _, n := range Table() {
		if n.Name != "three-at-once" && n.Lacks(s.target.Has) == "" && (s.target.Clocks || !n.Needs.Clocks) {
			others = append(others, n)
		}
	}
	type part struct {
		history.Fault
		ok bool
	}
	done := make(chan part)
	const at = 3
	for range at {
		n := others[s.rand.IntN(len(others))]
		r := rand.New(rand.NewPCG(s.rand.Uint64(), s.rand.Uint64()))
		go func() {
			f, ok := n.Strike(s.ctx, s.target, r)
			done <- part{f, ok}
		}()
	}
	var parts []history.Fault
	for range at {
		if p := <-done; p.ok {
			parts = append(parts, p.Fault)
		}
	}
	return s.join(parts)
}

// join makes the fault of s the sum of its parts. It may break what one of the parts may break, and no more.
func (s *strike) join(parts []history.Fault) error {
	s.fault.MayBreak = history.Promises{}
	var names []string
	var errs []error
	for _, p := range parts {
		s.fault.Ahead = max(s.fault.Ahead, p.Ahead)
		s.fault.MayBreak.Exclusion = s.fault.MayBreak.Exclusion || p.MayBreak.Exclusion
		s.fault.MayBreak.Tokens = s.fault.MayBreak.Tokens || p.MayBreak.Tokens
		if p.End == history.Never {
			s.unhealed = errors.Join(s.unhealed, errors.New(p.Nemesis+" "+p.Detail))
		}
		if p.Error != "" {
			errs = append(errs, errors.New(p.Nemesis+": "+p.Error))
			continue
		}
		names = append(names, p.Nemesis)
	}
	s.say("%s", strings.Join(names, ", "))
	switch {
	case len(parts) == 0:
		return errBusy
	case len(names) == 0:
		return errors.Join(errs...)
	}
	return nil
}
