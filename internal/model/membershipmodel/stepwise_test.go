// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import "github.com/redlock-go/redlock/internal/membership"

// stepwise appends what a process may do that reads the masters one by one. It decides with its last read, and other
// processes act between any two reads. Reads are not of one moment, so that a quorum it saw voting may never have been
// one.
func (d *driver) stepwise(dst []transition, s *state, p int) []transition {
	want := s.looking.want
	if s.looking.proc == 0 {
		want = d.lists(p)
	}
	for i := range d.w.masters {
		if want&(1<<i) != 0 {
			dst = d.read(dst, s, p, i)
		}
	}
	return dst
}

// lists are the masters that process p reads.
func (d *driver) lists(p int) (all uint16) {
	who := &d.w.Procs[p]
	for i := range d.w.masters {
		if d.w.listed(who.List, i) || who.Goal == membership.Change && d.w.listed(who.Target, i) {
			all |= 1 << i
		}
	}
	return all
}

// read appends the read of master i, and what the process decides if it is the last.
func (d *driver) read(dst []transition, s *state, p, i int) []transition {
	to := *s
	l := &to.looking
	if l.proc == 0 {
		*l = looking{proc: uint8(p + 1), want: d.lists(p)}
	}
	bit := uint16(1) << i
	if l.want &^= bit; s.masters[i].down {
		l.read &^= bit
	} else {
		l.read |= bit
		l.reads[i] = read{record: s.masters[i].record}
	}
	step := Step{Kind: Read, Proc: p, Master: i}
	if l.want != 0 {
		return d.add(dst, s, step, func(t *state) { *t = to })
	}
	d.prepare(&to, p, l.read, func(i int) (*record, uint8) { return &to.looking.reads[i].record, to.looking.reads[i].age })
	d.w.rules.Observe(&d.mem, &d.view)
	for first := 0; first < len(d.index); {
		for k, i := range d.index {
			d.view.Masters[k].Learned = l.learned&(1<<i) != 0
		}
		out, learn := d.decide(&to, p, first)
		known := d.recall(&to, p)
		if learn != nil {
			// What is learned is read again, with the counters.
			dst = d.add(dst, s, step, func(t *state) {
				*t = to
				t.procs[p] = known
				for _, k := range learn {
					t.looking.want |= 1 << d.index[k]
					t.looking.learned |= 1 << d.index[k]
				}
			})
			return dst
		}
		if out.swap && out.at < first {
			break
		}
		dst = d.outcome(dst, &to, p, out, l.read)
		if !out.swap {
			break
		}
		first = out.at + 1
	}
	return dst
}
