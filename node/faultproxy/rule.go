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

// Match chooses commands: cmd is the command's name and arguments. It is called for one command at a time, for every command while its
// rule stands, and under the proxy's lock: it must be quick, must not call the proxy, and must not keep or change cmd.
type Match func(cmd [][]byte) bool

// Rule does something to the replies of the commands it matches, until removed. Where several rules match, the oldest has the command.
type Rule struct {
	p     *Proxy
	match Match
	slow  time.Duration // SlowReply's, 0 for the other two
	held  *Held         // Hold's, nil for the other two
	first chan struct{} // closed at the first hit

	hits int // guarded by p.mu
}

// CutBeforeReply lets the master execute each matching command and cuts the connection instead of passing its reply on: the client
// cannot know whether it was executed (docs/safety.md A17). Replies of commands before it are still passed on; those after it are lost
// too, executed or not.
func (p *Proxy) CutBeforeReply(match Match) *Rule {
	return p.add(&Rule{match: match})
}

// SlowReply makes the reply of each matching command arrive late by d, and those behind it on the same connection no sooner.
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

// take returns the rule for a command, nil if none. A Hold is used up by it. The caller holds p.mu.
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

// Wait returns when the rule has been applied for the first time: the master has then executed the command, and its reply is being kept
// from the client. When ctx ends first it returns ctx's error.
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

// Remove ends the rule for commands to come; those already sent to the master keep it.
func (r *Rule) Remove() {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.remove(r)
}

// Held is one command taken out of its connection, or waiting for one.
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

// Hold takes the next matching command out of its connection and keeps it from the master, once. What the client sends after it, on this
// connection and others, goes on and is executed: the held command is overtaken. The client gets no reply for it, and since replies come
// in order none for the commands it sent after it on the same connection either (the rest of a pipeline, for one): they are executed,
// and their replies are kept back until Deliver, or lost when the client gives up before. Replies of commands before it are passed on.
//
// The main use: hold a lock client's release, let the client lose patience and acquire anew, deliver (docs/safety.md A14); or hold an
// acquire past the release that follows it (A13).
func (p *Proxy) Hold(match Match) *Held {
	h := &Held{}
	h.rule = &Rule{match: match, held: h}
	p.add(h.rule)
	return h
}

// caught fills in the command. The caller holds p.mu.
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

// Wait returns when a command has been caught. When ctx ends first it returns ctx's error, and the Hold stands.
func (h *Held) Wait(ctx context.Context) error { return h.rule.Wait(ctx) }

// Command returns the command caught, nil before.
func (h *Held) Command() [][]byte {
	select {
	case <-h.rule.first:
		return h.cmd
	default:
		return nil
	}
}

// Deliver has the master execute the command now and returns its reply as RESP, which is also given to the client if it is still there.
// When it returns without error the command has been executed. Called again, it is executed again, as a duplicate. It is an error before
// a command has been caught.
//
// It goes over a connection of its own, which repeats the AUTH, HELLO and SELECT of the original: so it also works when that is gone, or
// the master has been restarted. Faults of the link do not apply to it. For the same reason a command that depends on other state of its
// connection (MULTI, WATCH, CLIENT) must not be held.
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

// Drop gives the command up: before one has been caught the Hold is removed; after, the client's connection is cut if it still waits for
// the reply, as it can have no more replies in order.
func (h *Held) Drop() {
	p := h.rule.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(h.rule)
	if h.call != nil && h.call.held && h.conn.cut() {
		p.stats.Cuts++
	}
}
