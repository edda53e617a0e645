// SPDX-License-Identifier: Apache-2.0

// Package conduct has the checkers of what the library owes to those who use it, beside the lock itself: that a holder is told when its lease is
// over (signals), that a call that waits is not overtaken (queue-order), that what nobody needs is given back (left-behind), and that a client with
// wrong settings is refused (refusals). A busy machine or a fault near by is an excuse. What they cannot judge, they do not count.
package conduct

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// How long after its holder, or its caller, was done with it a vote or a place in a queue may still be on a master.
const (
	// giveBack bounds a release while nothing is wrong: it is sent at once. Most of it is for a busy machine.
	giveBack = 300 * time.Millisecond
	// reconnect bounds a release after a fault on the master or on its links: a client finds out after its I/O timeout of 2 s that a connection
	// is dead, and then dials at least each 250 ms.
	reconnect = 2*time.Second + 2*giveBack
	// attempt bounds how long an attempt that is never granted may have a vote: it waits for the other masters, for a node timeout at most.
	attempt = 2 * giveBack
	// queueLife and aliveLife are the TTLs that the library gives a queue and a sign of life (docs/internals/algorithm.md).
	queueLife, aliveLife = time.Minute, 3 * time.Second
)

// LeftBehind is the checker left-behind. What a client took and does not need any more is given back, and not merely left to its TTL:
//   - the vote of a holder is gone from a master giveBack after the Unlock of the holder returned, whatever it returned;
//   - the vote of a holder that was never granted the lock is gone attempt after it was first seen on the master, and after the calls of its
//     client for the lock have returned that were under way then: a multilock has votes for one lock while it waits for the next;
//   - the vote of a client that was killed is gone after a TTL and giveBack;
//   - a place in a queue is gone after the TTL of the queue, once no call of its client waits. The library does not promise more: a place that
//     was left is handed a vote that nobody counts, which ends after 3 s. Places that are seen giveBack after the last call are counted;
//   - a sign of life is gone after its TTL, once its client is gone.
//
// A fault on the master, on the client, or one that does not say what it hit moves the bound: see settles. The largest lags of the client and of
// the harness around that time are added to it. A master that the harness saw slow to answer has giveBack from then on: the client's lane has one
// batch under way, and sends a release when that has been answered.
//
// A key is judged in its own chapter. Of the chapters before, it needs when holders unlocked (for keepHolders), which process has which id, until
// when the calls of each process waited, and when votes without a grant were first seen.
func LeftBehind() check.Checker { return &leftBehind{} }

type leftBehind struct {
	check.Found
	*leftovers
	seen int
}

func (c *leftBehind) Add(h *history.History) {
	if c.leftovers == nil {
		c.leftovers = newLeftovers(h)
	}
	c.learn(h)
	for _, k := range h.Keys {
		if k.Holders == "" {
			continue
		}
		for id := range strings.SplitSeq(k.Holders, ", ") {
			c.seen++
			if why := c.judge(k, id); why != "" {
				c.Report(check.Violation{Text: fmt.Sprintf("%s: %s of %q on %s", why, id, k.Lock, k.Node), From: k.At, To: k.At})
			}
		}
	}
	if h.Part != nil && h.Part.To != history.Never {
		c.forget(h.Part.To)
	}
}

func (c *leftBehind) Result() check.Result {
	r := c.Into(check.Result{ID: "left-behind", Question: "Is anything left on a master that nobody needs any more?"})
	strays := 0
	if c.leftovers != nil {
		strays = c.strays
	}
	r.Figures = []check.Figure{{Name: "votes, places and signs of life inspected", Value: float64(c.seen)}, {Name: "places without a call that waits", Value: float64(strays)}}
	return r.ConcludeFrom(fmt.Sprintf("No: %d votes, places and signs of life inspected, none was left for longer than it may; %d places had no call that waits.",
		c.seen, strays), c.seen)
}

// keepHolders is how long it is remembered that a holder has unlocked. What it left is reported long before.
const keepHolders = 2 * time.Minute

// leftovers has what is needed to judge a Key.
type leftovers struct {
	ttl    time.Duration
	lags   *check.Lags
	grants map[check.GrantID]int64 // when the Unlock of the holder returned; Never if it has not
	owners map[string]owner        // client id, the first 36 bytes of a holder's id -> its process
	calls  map[[2]string][]settled // process and lock -> its lock calls, by call
	faults map[string][]settled    // master or process -> faults on it; "" has those that do not say what they hit
	slow   map[string][]settled    // master -> when it was slow to answer the harness
	killed map[string]int64        // process -> when it was dead
	closed map[string]int64        // process -> when it had closed its client
	first  map[[3]string]int64     // master, lock and holder -> when the vote was first seen, or until when a call of then lasted
	strays int                     // places that were seen giveBack after the last call
	ends   map[check.GrantID]int64 // grants of the harness -> when it had unlocked
}

// owner is the process of a client id, and since when a call shows it.
type owner struct {
	process string
	since   int64
}

// settled says until when something lasts or matters: what starts at start, or anything in the list before it.
type settled struct{ start, until int64 }

// settle appends to fs, which is in the order of starts.
func settle(fs []settled, start, until int64) []settled {
	if n := len(fs); n > 0 {
		until = max(until, fs[n-1].until)
	}
	return append(fs, settled{start, until})
}

// last keeps of fs what lasts: the until of the last one is that of all before it.
func last(fs []settled) []settled { return slices.Clone(fs[len(fs)-1:]) }

// before returns until when anything of fs that started before t lasts; 0 if nothing did.
func before(fs []settled, t int64) int64 {
	i, _ := slices.BinarySearchFunc(fs, t, func(f settled, t int64) int { return cmp.Compare(f.start, t) })
	if i == 0 {
		return 0
	}
	return fs[i-1].until
}

// newLeftovers keeps what all chapters have.
func newLeftovers(h *history.History) *leftovers {
	l := &leftovers{
		ttl: h.Header.TTL, lags: check.LagsOf(h), grants: map[check.GrantID]int64{}, owners: map[string]owner{}, calls: map[[2]string][]settled{},
		faults: map[string][]settled{}, slow: map[string][]settled{}, killed: map[string]int64{}, closed: map[string]int64{}, first: map[[3]string]int64{}, ends: map[check.GrantID]int64{},
	}
	for _, p := range h.Pulses {
		if p.Idle {
			l.closed[p.Process] = p.At // the last one counts: before the first there was nothing
		} else {
			delete(l.closed, p.Process)
		}
	}
	for _, v := range h.Votes {
		if v.Outcome == history.Unknown || v.Return-v.Call >= int64(QuietLag) {
			l.slow[v.Node] = settle(l.slow[v.Node], v.Call, v.Return+int64(giveBack))
		}
	}
	l.addFaults(h)
	return l
}

// learn keeps what the operations of a chapter say.
func (l *leftovers) learn(h *history.History) {
	for _, g := range check.Lives(h) {
		l.grants[check.GrantID{Lock: g.Grant.Lock, Holder: g.Grant.Holder}] = history.Never
		if g.Unlock != nil {
			l.grants[check.GrantID{Lock: g.Grant.Lock, Holder: g.Grant.Holder}] = g.Unlock.Return
		}
	}
	for _, op := range h.Own() {
		process := l.lags.Process(op.Client)
		if len(op.Holder) > 36 && l.owners[op.Holder[:36]].process == "" {
			l.owners[op.Holder[:36]] = owner{process, op.Call}
		}
		switch op.Kind {
		case history.KindLock, history.KindProbe:
			key := [2]string{process, op.Lock}
			l.calls[key] = settle(l.calls[key], op.Call, op.Return)
		case history.KindService:
			l.ends[check.GrantID{Lock: op.Lock, Holder: op.Holder}] = op.Return
		}
	}
}

// forget drops what no key after to needs.
func (l *leftovers) forget(to int64) {
	old := func(at int64) bool { return at != history.Never && at < to-int64(keepHolders) }
	maps.DeleteFunc(l.grants, func(_ check.GrantID, unlocked int64) bool { return old(unlocked) })
	maps.DeleteFunc(l.ends, func(_ check.GrantID, at int64) bool { return old(at) })
	maps.DeleteFunc(l.first, func(_ [3]string, at int64) bool { return old(at) })
	for key, calls := range l.calls {
		l.calls[key] = last(calls)
	}
}

func (l *leftovers) addFaults(h *history.History) {
	for _, f := range h.Faults {
		until := f.End
		if until != history.Never {
			until += int64(settles(f.Nemesis, l.ttl))
		}
		targets := f.Targets
		if len(targets) == 0 {
			targets = []string{""}
		}
		for _, t := range targets {
			l.faults[t] = settle(l.faults[t], f.Start, until)
			if f.Nemesis == "kill-client" {
				l.killed[t] = f.End
			}
		}
	}
}

// settles returns how long after its end a fault of the nemesis can still explain what is on a master. A master that lost or restored data may
// have forgotten releases that it had acknowledged: then the TTL ends the vote.
func settles(nemesis string, ttl time.Duration) time.Duration {
	switch nemesis {
	case "cut-replies", "waiter-storm", "misconfigure", "fill-memory", "slow-replies":
		return giveBack // connections are made again at once, or were never lost
	case "partition", "freeze-masters", "freeze-client", "administer", "change-policy":
		return reconnect
	}
	return max(reconnect, ttl+giveBack)
}

// judge returns what is wrong with an id in a key; "" if nothing is.
func (l *leftovers) judge(k history.Key, id string) string {
	process := ""
	if o := l.owners[id[:min(36, len(id))]]; o.since <= k.At {
		process = o.process
	}
	from, bound, why := int64(0), giveBack, ""
	switch k.What {
	case history.KeyVotes:
		from, bound, why = l.vote(k, id, process)
	case history.KeyQueue:
		from, bound, why = l.place(k, process)
	case history.KeyAlive:
		if from, why = l.gone(process), "a sign of life of a client that is gone"; from != history.Never {
			bound = aliveLife + giveBack
		}
	}
	if from == history.Never || k.At <= from {
		return ""
	}
	due := from + int64(bound)
	for _, target := range []string{"", k.Node, process} {
		due = max(due, before(l.faults[target], k.At))
	}
	if process == "" { // any fault on a client may be on this one
		for _, fs := range l.faults {
			due = max(due, before(fs, k.At))
		}
	}
	due = max(due, before(l.slow[k.Node], k.At))
	if due == history.Never {
		return ""
	}
	lag := max(l.lag("harness", from, k.At), l.lag(process, from, k.At))
	if due += 2 * int64(min(lag, time.Hour)); k.At <= due {
		return ""
	}
	if k.What == history.KeyQueue && time.Duration(k.At-from) <= queueLife+giveBack+2*lag {
		l.strays++
		return ""
	}
	return fmt.Sprintf("%s is still there after %v", why, time.Duration(k.At-from).Round(time.Millisecond))
}

// vote returns since when the vote of a holder is not needed, and how long it may be left then. Never: it is needed.
func (l *leftovers) vote(k history.Key, holder, process string) (from int64, bound time.Duration, why string) {
	id := check.GrantID{Lock: k.Lock, Holder: holder}
	if end, ok := l.ends[id]; ok {
		return end, giveBack, "the vote of a holder that has unlocked"
	}
	unlocked, granted := l.grants[id]
	switch {
	case granted && unlocked != history.Never:
		return unlocked, giveBack, "the vote of a holder that has unlocked"
	case l.killed[process] != 0:
		return l.killed[process], l.ttl + giveBack, "the vote of a client that was killed"
	case granted:
		return history.Never, 0, ""
	}
	if process == "" {
		return history.Never, 0, "" // nobody knows whether its call is under way
	}
	key := [3]string{k.Node, k.Lock, holder}
	if _, seen := l.first[key]; !seen {
		l.first[key] = max(k.At, before(l.calls[[2]string{process, k.Lock}], k.At))
	}
	return l.first[key], attempt, "the vote of an attempt that was never granted"
}

// place is like vote, for a place in a queue: a client has one for all its calls that wait.
func (l *leftovers) place(k history.Key, process string) (from int64, bound time.Duration, why string) {
	if process == "" {
		return history.Never, 0, ""
	}
	why = "the place of a client in a queue"
	if at := l.killed[process]; at != 0 {
		return at, giveBack, why
	}
	if from = before(l.calls[[2]string{process, k.Lock}], k.At); from == 0 || from > k.At {
		return history.Never, 0, "" // a call waits, or the history has none
	}
	return from, giveBack, why
}

// gone returns when the client of a process was killed or closed; Never if it was not.
func (l *leftovers) gone(process string) int64 {
	if at := l.killed[process]; at != 0 {
		return at
	}
	if at := l.closed[process]; at != 0 {
		return at
	}
	return history.Never
}

// lag is the largest lag of a process from a second before the one to the other; 0 if nothing is known, for example of a process that is gone.
func (l *leftovers) lag(process string, from, to int64) (lag time.Duration) {
	ps := l.lags.Pulses[process]
	i, _ := slices.BinarySearchFunc(ps, from, func(p history.Pulse, t int64) int { return cmp.Compare(p.At, t) })
	for ; i < len(ps) && ps[i].At <= to+int64(time.Second); i++ {
		lag = max(lag, ps[i].Lag)
	}
	return lag
}
