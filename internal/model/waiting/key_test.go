// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Key is the canonical form: masters that are exchanged are the same.
func (m *Model) Key(s **world) [2]uint64 {
	w := *s
	for i := range masters {
		b := w.masters[i].Append(m.parts[i][:0])
		b = binary.AppendVarint(b, int64(w.ahead[i]))
		for k := range m.Lines {
			b = m.appendOf(b, &w.procs[k], i)
		}
		m.parts[i] = b
	}
	parts := m.parts
	slices.SortFunc(parts[:], func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
	b := m.buf[:0]
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	b = binary.AppendVarint(b, int64(w.now))
	b = binary.AppendVarint(b, w.token)
	for _, u := range w.used {
		b = append(b, byte(u))
	}
	b = append(b, flag(w.hurt), flag(w.cut))
	for k := range m.Lines {
		b = m.appendRest(b, &w.procs[k])
	}
	m.buf = b
	return [2]uint64{maphash.Bytes(m.seeds[0], b), maphash.Bytes(m.seeds[1], b)}
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// appendOf appends what the process has of master i.
func (m *Model) appendOf(b []byte, p *process, i int) []byte {
	b = append(b, p.machine.Of(i), byte(p.asked>>i&1), byte(p.doubts>>i&1|p.barred>>i&1<<1),
		byte(p.settle.agree>>i&1|p.settle.below>>i&1<<1|p.settle.yes>>i&1<<2|p.settle.no>>i&1<<3), byte(len(p.lanes[i])))
	for _, o := range p.lanes[i] {
		b = append(b, byte(o.gen), byte(o.req.Kind), flag(o.wants), flag(o.req.Hand > 0), flag(o.req.Leaves), flag(o.req.More))
		b = binary.AppendVarint(binary.AppendVarint(b, o.req.Token), int64(o.req.Start))
		b = append(append(b, byte(len(o.req.Place))), o.req.Place...)
		b = append(append(b, byte(len(o.req.Holder))), o.req.Holder...)
		b = appendRelease(b, o.release)
		if wait := o.req.Wait; wait != nil {
			b = append(b, flag(wait.Retry), flag(wait.Only), flag(wait.Again), byte(wait.Ticket))
		}
	}
	b = append(b, byte(len(p.back[i])))
	for _, a := range p.back[i] {
		b = append(b, byte(a.gen), byte(a.kind), byte(a.reply.Outcome), byte(a.reply.Ahead))
		b = binary.AppendVarint(binary.AppendVarint(b, a.reply.Token), int64(a.reply.Remaining))
		b = appendRelease(b, a.release)
	}
	b = append(b, byte(len(p.told[i])))
	for _, t := range p.told[i] {
		b = append(append(b, byte(len(t))), t...)
	}
	if p.call != nil {
		b = p.call.Append(append(b, 'c'), i)
	}
	if p.hold.call != nil {
		b = p.hold.call.Append(append(b, 'h'), i)
	}
	if p.offer.call != nil {
		b = p.offer.call.Append(append(b, 'o'), i)
	}
	return b
}

// appendRelease appends the release that an op is instead of.
func appendRelease(b []byte, r *protocol.Request) []byte {
	if r == nil {
		return b
	}
	return append(append(b, flag(r.Hand > 0)), r.Holder...)
}

// appendRest appends what the process has of no master.
func (m *Model) appendRest(b []byte, p *process) []byte {
	rest := p.machine.Rest()
	id, ok := m.rests[rest]
	if !ok {
		id = uint64(len(m.rests))
		m.rests[rest] = id
	}
	b = binary.AppendUvarint(b, id)
	b = append(b, byte(p.gen), byte(p.stage), flag(p.woken), flag(p.listens), p.timer, byte(p.line), byte(p.came), flag(p.dead), flag(p.death.voted), flag(p.death.waited), flag(p.settle.open), flag(p.settle.offered), byte(p.hold.gen), byte(p.offer.gen), byte(p.passes))
	for _, n := range []int64{int64(p.start), p.settle.token, p.hold.token, p.offer.token, int64(p.hold.until), int64(p.signed), int64(p.death.at)} {
		b = binary.AppendVarint(b, n)
	}
	if p.call != nil {
		b = p.call.AppendRest(append(b, 'c'))
	}
	return b
}
