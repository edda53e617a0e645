// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Tokens is the checker tokens: on each lock no token was issued twice, and a grant that was called after another had returned has the
// larger token. The same holds for readers. If a grant of a lock has a token, each of that mode has: programs of others may have none at all, and the
// checker effort judges how many tokens a run must have. A token that is old and was issued before is one violation: it went back.
//
// Two grants that are in flight at the same time may return in either order, so the order of returns is not promised (docs/safety.md,
// "Fencing tokens"). A figure says how often it differed from the order of tokens.
func Tokens() check.Checker {
	return &tokens{first: [2]map[side]history.Op{{}, {}}}
}

type tokens struct {
	check.Found
	issued, without int
	seen            rising[string, history.Op] // by lock
	first           [2]map[side]history.Op     // the first grant without a token, and the first with one
}

// side is the readers of a lock, or all others.
type side struct {
	lock    string
	readers bool
}

func (c *tokens) Add(h *history.History) {
	for _, op := range h.Own() {
		switch {
		case op.Kind != history.KindLock || op.Outcome != history.OK:
		case op.Token == 0:
			c.without++
			c.mixed(op, 0)
		default:
			c.issued++
			c.mixed(op, 1)
			above, same := c.seen.see(sighting[string, history.Op]{key: op.Lock, call: op.Call, ret: op.Return, value: op.Token, record: op})
			if above != nil {
				a := above.record
				c.Both(a, op, "token went back from %d to %d: %s had returned before %s", a.Token, op.Token, check.Name(a), check.Name(op))
			}
			if same != nil {
				a := same.record
				c.Both(a, op, "token %d of %q was issued twice: %s, and %s", op.Token, op.Lock, check.Name(a), check.Name(op))
			}
		}
	}
}

// mixed reports the first two grants of a lock of which one has a token and one has none. kind is that of op.
func (c *tokens) mixed(op history.Op, kind int) {
	of := side{op.Lock, op.Mode == history.Shared}
	if _, ok := c.first[kind][of]; ok {
		return
	}
	c.first[kind][of] = op
	if other, ok := c.first[1-kind][of]; ok {
		c.Both(other, op, "of %q one grant has a token and one has none: %s, and %s", op.Lock, check.Name(other), check.Name(op))
	}
}

func (c *tokens) Result() check.Result {
	c.seen.pass(history.Never)
	r := c.Into(check.Result{ID: "tokens", Question: "Was every fencing token new, and larger than those of all grants before it?"})
	r.Figures = []check.Figure{{Name: "tokens issued", Value: float64(c.issued)}, {Name: "grants without a token", Value: float64(c.without)}, {Name: "grants returned out of token order", Value: float64(c.seen.inverted)}}
	return r.ConcludeFrom(fmt.Sprintf("Yes: %d tokens on %d locks, all different and in real-time order.", c.issued, len(c.seen.tops)), c.issued)
}

// Counters is the checker counters: in one incarnation of a master no fencing counter is ever read lower than before. A fall without a new
// incarnation means that the master was rolled back without a trace (docs/safety.md, A12).
func Counters() check.Checker { return &counters{lives: map[string]int32{}} }

type counters struct {
	check.Found
	lives map[string]int32 // the incarnations seen, numbered: a run has many, with hundreds of counters each
	n     int
	seen  rising[counterID, struct{}]
}

type counterID struct {
	life int32
	slot int32
}

func (c *counters) Add(h *history.History) {
	for _, x := range h.Counters {
		c.n++
		name := fmt.Sprintf("%s (incarnation %s)", x.Node, x.Incarnation)
		life, ok := c.lives[name]
		if !ok {
			life = int32(len(c.lives))
			c.lives[name] = life
		}
		above, _ := c.seen.see(sighting[counterID, struct{}]{key: counterID{life, int32(x.Slot)}, call: x.Call, ret: x.Return, value: x.Value})
		if above != nil {
			c.Report(check.Violation{
				Text: fmt.Sprintf("counter %d of %s fell from %d, read at %d, to %d, read at %d", x.Slot, name, above.value, above.call, x.Value, x.Call),
				From: above.call, To: x.Return,
			})
		}
	}
}

func (c *counters) Result() check.Result {
	c.seen.pass(history.Never)
	r := c.Into(check.Result{ID: "counters", Question: "Did a master's fencing counter ever fall without the master's being known to have lost its data?"})
	r.Figures = []check.Figure{{Name: "counter readings", Value: float64(c.n)}, {Name: "counters of one incarnation", Value: float64(len(c.seen.tops))}}
	return r.ConcludeFrom(fmt.Sprintf("No: %d readings of %d counters, none falls.", c.n, len(c.seen.tops)), c.n)
}
