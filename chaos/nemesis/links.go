// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
)

// locking are the commands by which libraries take, extend and give back locks. This one sends evalsha only.
var locking = []string{"evalsha", "eval", "set", "fcall"}

// script matches the commands by which locks are taken, extended and given back, with the given chance in a hundred.
func (s *strike) script(percent uint64) faultproxy.Match {
	state := s.rand.Uint64() // of its own: a match runs on the proxy's goroutines
	return func(cmd [][]byte) bool {
		if !slices.ContainsFunc(locking, func(c string) bool { return bytes.EqualFold(cmd[0], []byte(c)) }) {
			return false
		}
		state = state*6364136223846793005 + 1442695040888963407
		return (state>>33)%100 < percent
	}
}

// freezeClient stops a client: at any time, or when its masters have executed a command and the replies are on their way, so that it
// finds them all when it wakes (docs/safety.md, A2).
func freezeClient(s *strike) error {
	i := s.rand.IntN(len(s.target.Clients))
	c := s.target.Clients[i]
	d := s.between(10*time.Millisecond, 3*s.target.TTL)
	s.fault.Targets = []string{c.Name()}
	s.say("%s, for %v", s.awaitMoment(i), d)
	s.heal(func(context.Context) error { return c.Resume() })
	if err := c.Pause(); err != nil {
		return err
	}
	s.last(d)
	return nil
}

// killClient kills a client and starts another in its place. It strikes at any time, or when the masters have executed a command of the client
// and the replies are on their way: the client dies half-way through a lock, an extend or an unlock. Nobody releases what it held.
func killClient(s *strike) error {
	i := s.rand.IntN(len(s.target.Clients))
	c := s.target.Clients[i]
	s.fault.Targets = []string{c.Name()}
	s.say("%s", s.awaitMoment(i))
	return c.Kill(s.ctx)
}

// awaitMoment draws when to strike client i, waits for that moment, and says which it is.
func (s *strike) awaitMoment(i int) string {
	if s.rand.IntN(3) > 0 && s.awaitReplies(i) {
		return "before the replies"
	}
	return "at any time"
}

// awaitReplies returns true when a command of client i was executed and its reply, like those of the other masters, is a few milliseconds
// away. It returns false after a TTL without one.
func (s *strike) awaitReplies(i int) bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.target.TTL)
	defer cancel()
	for _, p := range s.target.Links[i] {
		rule := p.SlowReply(s.script(100), 10*time.Millisecond)
		defer rule.Remove()
		go func() {
			if rule.Wait(ctx) == nil {
				cancel()
			}
		}()
	}
	<-ctx.Done()
	return errors.Is(ctx.Err(), context.Canceled) && s.ctx.Err() == nil
}

// storm makes all clients want the hot lock.
func storm(s *strike) error {
	var errs []error
	for _, c := range s.target.Clients {
		errs = append(errs, c.Storm())
		s.fault.Targets = append(s.fault.Targets, c.Name())
	}
	s.last(time.Second)
	return errors.Join(errs...)
}

// upgrade has a client replaced, as a deployment does it.
func upgrade(s *strike) error {
	c := s.target.Clients[s.rand.IntN(len(s.target.Clients))]
	s.fault.Targets = []string{c.Name()}
	to, err := c.Upgrade(s.ctx)
	s.say("by one of %s", to)
	return err
}

// partition cuts links. Each strike draws which clients lose which masters, and in which direction.
func partition(s *strike) error {
	w := s.target
	n := len(w.Nodes)
	var shape string
	cut := make([][]bool, len(w.Links)) // [client][node]
	for i := range cut {
		cut[i] = make([]bool, n)
	}
	all := func(count int) {
		for _, j := range s.rand.Perm(n)[:count] {
			s.fault.Targets = append(s.fault.Targets, w.Nodes[j].name)
			for i := range cut {
				cut[i][j] = true
			}
		}
	}
	switch s.rand.IntN(5) {
	case 0:
		shape = "one master"
		all(1)
	case 1:
		shape = "a minority"
		all(w.tolerated())
	case 2:
		shape = "a majority"
		all(w.tolerated() + 1)
	case 3:
		shape = "a ring: each client another minority"
		for i := range cut {
			for k := range w.tolerated() {
				cut[i][(i+k)%n] = true
			}
		}
	case 4:
		i := s.rand.IntN(len(cut))
		shape = "one client: " + w.Clients[i].Name()
		for _, j := range s.rand.Perm(n)[:s.some(n)] {
			cut[i][j] = true
			s.fault.Targets = append(s.fault.Targets, w.Nodes[j].name)
		}
	}
	fault := faultproxy.Fault{Drop: true}
	how := "dropped"
	if s.rand.IntN(2) == 0 {
		fault, how = faultproxy.Fault{Stall: true}, "kept until the end"
	}
	way := []struct {
		name string
		dirs []faultproxy.Direction
	}{
		{"commands", []faultproxy.Direction{faultproxy.ToMaster}},
		{"replies", []faultproxy.Direction{faultproxy.ToClient}},
		{"both ways", []faultproxy.Direction{faultproxy.ToMaster, faultproxy.ToClient}},
	}[s.rand.IntN(3)]
	d := s.between(s.target.TTL/2, 3*s.target.TTL)
	s.say("%s, %s, %s, for %v", shape, way.name, how, d)
	return s.onLinks(cut, way.dirs, fault, d)
}

// onLinks puts a fault on links for d. A link that has one already is left out: its own nemesis heals it.
func (s *strike) onLinks(which [][]bool, ways []faultproxy.Direction, f faultproxy.Fault, d time.Duration) error {
	if !s.target.takeLinks(which) {
		return errBusy
	}
	links := s.target.struck(which)
	set := func(f faultproxy.Fault) {
		for _, link := range links {
			for _, way := range ways {
				f.Seed++
				link.Set(way, f)
			}
		}
	}
	s.heals = append(s.heals, func() error {
		set(faultproxy.Fault{})
		s.target.giveLinks(which)
		return nil
	})
	before := s.target.hurt(which)
	set(f)
	s.last(d)
	n := s.target.hurt(which) - before
	if n == 0 {
		return errors.New("no message came by")
	}
	s.fault.Detail += fmt.Sprintf("; %d messages", n)
	return nil
}

// chosen returns the links of clients, by client and node, that are set in which.
func (t *Target) chosen(which [][]bool) (links []*faultproxy.Proxy) {
	for i, row := range which {
		for j, yes := range row {
			if yes {
				links = append(links, t.Links[i][j])
			}
		}
	}
	return links
}

// struck returns the links that a fault on these links of clients strikes: these, and the link of Service to a node that no client is left with
// a good link to.
func (t *Target) struck(which [][]bool) (links []*faultproxy.Proxy) {
	links = t.chosen(which)
	for j, link := range t.Service {
		if !slices.ContainsFunc(which, func(row []bool) bool { return !row[j] }) {
			links = append(links, link)
		}
	}
	return links
}

// hurt counts the messages that faults on these links have dropped, delayed or kept so far.
func (t *Target) hurt(which [][]bool) (n int64) {
	for _, link := range t.chosen(which) {
		s := link.Stats()
		n += s.Dropped + s.Delayed + s.Stalled
	}
	return n
}

// toNodes is all links to some nodes.
func (t *Target) toNodes(hurt ...int) [][]bool {
	which := make([][]bool, len(t.Links))
	for i := range which {
		which[i] = make([]bool, len(t.Nodes))
		for _, j := range hurt {
			which[i][j] = true
		}
	}
	return which
}

// slow makes the replies of some masters late by 0.5 to 0.99 of what a client waits for them.
func slow(s *strike) error {
	hurt := s.rand.Perm(len(s.target.Nodes))[:s.some(len(s.target.Nodes))]
	d := s.between(s.target.NodeTimeout/2, s.target.NodeTimeout*99/100)
	for _, j := range hurt {
		s.fault.Targets = append(s.fault.Targets, s.target.Nodes[j].name)
	}
	s.say("late by %v", d)
	return s.onLinks(s.target.toNodes(hurt...), []faultproxy.Direction{faultproxy.ToClient}, faultproxy.Fault{Delay: d}, s.between(s.target.TTL, 3*s.target.TTL))
}

// reorder delays whole links, or holds single commands back and delivers them when later ones have been executed.
func reorder(s *strike) error {
	if s.rand.IntN(3) == 0 {
		j := s.rand.IntN(len(s.target.Nodes))
		f := faultproxy.Fault{Delay: s.between(time.Millisecond, s.target.NodeTimeout), Jitter: s.target.TTL, Seed: s.rand.Uint64()}
		s.fault.Targets = []string{s.target.Nodes[j].name}
		s.say("delay %v with jitter %v", f.Delay, f.Jitter)
		return s.onLinks(s.target.toNodes(j), []faultproxy.Direction{faultproxy.ToMaster, faultproxy.ToClient}, f, s.between(s.target.TTL, 2*s.target.TTL))
	}
	i, j := s.rand.IntN(len(s.target.Links)), s.rand.IntN(len(s.target.Nodes))
	s.fault.Targets = []string{s.target.Clients[i].Name(), s.target.Nodes[j].name}
	held := s.target.Links[i][j].Hold(s.script(20))
	s.heals = append(s.heals, func() error { held.Drop(); return nil })
	caught, cancel := context.WithTimeout(s.ctx, 2*s.target.TTL)
	defer cancel()
	if held.Wait(caught) != nil {
		return errors.New("no command came by to be held")
	}
	d := s.between(time.Millisecond, 2*s.target.TTL)
	s.say("one command delivered %v late", d)
	s.last(d)
	late, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.target.TTL)
	defer cancel()
	if _, err := held.Deliver(late); err != nil {
		// The master was down or frozen when its time came: it is lost, as it would be on a network, after a delay all the same.
		s.fault.Detail += ", to nobody"
	}
	return nil
}

// cutReplies resets connections between execution and reply, for a share of the commands on some links.
func cutReplies(s *strike) error {
	i := s.rand.IntN(len(s.target.Links))
	percent := uint64(1 + s.rand.IntN(50))
	s.fault.Targets = []string{s.target.Clients[i].Name()}
	var rules []*faultproxy.Rule
	for _, j := range s.rand.Perm(len(s.target.Nodes))[:s.some(len(s.target.Nodes))] {
		s.fault.Targets = append(s.fault.Targets, s.target.Nodes[j].name)
		rules = append(rules, s.target.Links[i][j].CutBeforeReply(s.script(percent)))
	}
	s.last(s.between(s.target.TTL, 2*s.target.TTL))
	hits := 0
	for _, r := range rules {
		r.Remove()
		hits += r.Hits()
	}
	s.say("%d%% of commands, %d replies lost", percent, hits)
	if hits == 0 {
		return errors.New("no command came by to be cut")
	}
	return nil
}
