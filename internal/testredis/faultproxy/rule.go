// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Match selects commands: cmd is the command's name and arguments. The proxy calls it for each command while the rule is set, one at a
// time and under the proxy's lock. It must be quick, and must neither call the proxy nor keep or change cmd.
type Match func(cmd [][]byte) bool

// Rule changes how the proxy treats the replies of matching commands, until it is removed. If several rules match, the oldest applies.
type Rule struct {
	p     *Proxy
	match Match
	slow  time.Duration // SlowReply's, 0 for the other two
	held  *Held         // Hold's, nil for the other two
	first chan struct{} // closed at the first hit

	hits int // guarded by p.mu
}

// CutBeforeReply lets the master execute each matching command, and cuts the connection instead of passing the reply on. The client cannot
// know whether the master executed the command (docs/safety.md A17). Replies of earlier commands still pass. Replies of later commands are
// lost, whether the master executed them or not.
func (p *Proxy) CutBeforeReply(match Match) *Rule {
	return p.add(&Rule{match: match})
}

// SlowReply delays the reply of each matching command by d. Later replies on the same connection wait behind it.
func (p *Proxy) SlowReply(match Match, d time.Duration) *Rule {
	return p.add(&Rule{match: match, slow: max(d, 1)})
}

func (p *Proxy) add(r *Rule) *Rule {
	r.p, r.first = p, make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// take returns the rule for a command, or nil. It removes a Hold, which applies once. The caller holds p.mu.
func (p *Proxy) take(cmd [][]byte) *Rule {
	for _, r := range p.rules {
		if r.match(cmd) {
			if r.held != nil {
				p.remove(r)
			}
			return r
		}
	}
	return nil
}

func (p *Proxy) remove(r *Rule) {
	p.rules = slices.DeleteFunc(p.rules, func(other *Rule) bool { return other == r })
}

// hit counts a hit. The caller holds p.mu.
func (r *Rule) hit() {
	if r.hits++; r.hits == 1 {
		close(r.first)
	}
}

// Wait returns when the rule has been applied for the first time: the master has executed the command, and the client has no reply yet.
// When ctx ends first it returns ctx's error.
func (r *Rule) Wait(ctx context.Context) error {
	select {
	case <-r.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Hits returns how often the rule has been applied.
func (r *Rule) Hits() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.hits
}

// Remove ends the rule. It still applies to commands that were already sent to the master.
func (r *Rule) Remove() {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.remove(r)
}

// Held is a command that was taken out of its connection, or the wait for such a command.
type Held struct {
	rule *Rule

	// Written once, before rule.first is closed.
	conn   *conn
	call   *call
	cmd    [][]byte
	setup  []byte // the connection's AUTH, HELLO and SELECT
	setups int
	bytes  []byte
}

// Hold takes the next matching command, once, out of its connection and keeps it from the master. Commands that the client sends later, on
// this connection and others, overtake the held command: the master executes them.
//
// The client gets no reply to the held command. Replies come in order, so the client also gets no reply to later commands on the same
// connection, such as the rest of a pipeline. The proxy keeps these replies until Deliver. They are lost if the client closes the
// connection first. Replies of earlier commands still pass.
//
// Two main uses: hold the release of a lock client until the client has timed out and acquired again, then deliver it (docs/safety.md A14);
// or hold an acquire until the release that follows it was executed (A13).
func (p *Proxy) Hold(match Match) *Held {
	h := &Held{}
	h.rule = &Rule{match: match, held: h}
	p.add(h.rule)
	return h
}

// caught records the command. The caller holds p.mu.
func (h *Held) caught(c *conn, call *call, msg *message) {
	h.conn, h.call = c, call
	h.bytes = slices.Clone(msg.bytes)
	for _, arg := range msg.args {
		h.cmd = append(h.cmd, slices.Clone(arg))
	}
	for _, frame := range c.setup {
		if frame != nil {
			h.setup = append(h.setup, frame...)
			h.setups++
		}
	}
	c.p.stats.Held++
	h.rule.hit()
}

// Wait returns when a command has been caught. When ctx ends first it returns ctx's error, and the Hold stays set.
func (h *Held) Wait(ctx context.Context) error { return h.rule.Wait(ctx) }

// Command returns the command that was caught, or nil if none was yet.
func (h *Held) Command() [][]byte {
	select {
	case <-h.rule.first:
		return h.cmd
	default:
		return nil
	}
}

// Deliver makes the master execute the command now and returns the reply as RESP. If the client's connection is still open, the client gets
// the reply too. If Deliver returns no error, the master has executed the command. A second call executes it again, as a duplicate. Deliver
// fails if no command was caught yet.
//
// Deliver uses a new connection, on which it repeats the AUTH, HELLO and SELECT of the original. So it works after that connection was
// closed or the master was restarted, and faults of the link do not apply. A command that depends on other state of its connection (MULTI,
// WATCH, CLIENT) must not be held.
func (h *Held) Deliver(ctx context.Context) (reply []byte, err error) {
	if h.Command() == nil {
		return nil, errors.New("faultproxy: deliver: no command caught yet")
	}
	reply, err = h.execute(ctx)
	if err != nil {
		return nil, fmt.Errorf("faultproxy: deliver: %w", err)
	}
	h.rule.p.mu.Lock()
	defer h.rule.p.mu.Unlock()
	if h.call.held {
		h.conn.answer(h.call, reply)
	}
	return reply, nil
}

func (h *Held) execute(ctx context.Context) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.rule.p.where())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write(slices.Concat(h.setup, h.bytes)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	var msg message
	for replies := 0; replies <= h.setups; {
		if err := msg.readReply(r); err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(msg.bytes, []byte(">")) {
			replies++
		}
	}
	return slices.Clone(msg.bytes), nil
}

// Drop discards the command. If no command was caught yet, it removes the Hold. Otherwise it cuts the client's connection if that still
// waits for the reply, because the replies behind it could not pass in order.
func (h *Held) Drop() {
	p := h.rule.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(h.rule)
	if h.call != nil && h.call.held && h.conn.cut() {
		p.stats.Cuts++
	}
}
