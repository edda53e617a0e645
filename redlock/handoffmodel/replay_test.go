// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// bug is one way to get the scripts wrong.
type bug string

const (
	ignoresState      bug = "settles although the record state does not fit"
	claimsAnyState    bug = "claims although the record state does not fit"
	refusesLeave      bug = "refuses a give-back when the record state does not fit"
	keepsQueue        bug = "keeps its queue when the record state becomes another"
	onlyReleases      bug = "leaves the place of one that has it"
	onlyLeaves        bug = "leaves the vote of one that has it"
	handsWhatItFinds  bug = "hands a lock that it found free"
	handsUnasked      bug = "hands although the op said not to"
	handsAfterReaders bug = "hands when a reader releases"
	handsLong         bug = "hands for the full TTL"
	keepsPlace        bug = "leaves the place of what it handed"
	keepsCounter      bug = "hands without raising the counter"
	ignoresProposal   bug = "ignores the proposal"
	ignoresTicket     bug = "orders by arrival"
	ordersByHolder    bug = "orders by holder id"
	ignoresSilence    bug = "hands to clients without a sign of life"
	waitsForUnheard   bug = "waits for clients that no message reaches"
	passesDeaf        bug = "passes over clients that say that they do not hear"
	oldStamp          bug = "keeps the stamp of the first sign of life"
	claimQueues       bug = "queues what claims and has no place"
	claimIgnoresToken bug = "does not raise the counter to the token"
	claimAnyOwner     bug = "raises the counter for one that has no vote"
	claimKeepsTTL     bug = "does not renew the vote that is claimed"
	readerCounter     bug = "tells a reader the counter"
	readersPassWriter bug = "lets readers past a writer that waits"
	handsToReaders    bug = "hands to readers"
	handsPastJava     bug = "hands while a Redisson client waits"
	tryQueues         bug = "gives one that tries a place"
	tryPasses         bug = "lets one that tries past the queue"
	replayDates       bug = "says that an enqueue that came again renewed the vote"
	aheadOfNobody     bug = "tells nobody how many are ahead"
)

// keys is a master in memory, written from the words of README.md, in the terms of Redis: a hash, a string with a
// TTL for each sign of life, a sorted set for each record state. No time passes.
type keys struct {
	bug      bug
	state    string
	counter  int64
	hash     map[string]int64 // field to the vote
	ttls     map[string]time.Duration
	reading  bool // mode is read
	queues   map[string][]Place
	alive    map[string]Sign
	subs     map[string]bool
	javaSubs bool
	javaHas  bool
	arrival  int64
	sent     []Notice
}

func newKeys(b bug) *keys {
	return &keys{bug: b, hash: map[string]int64{}, ttls: map[string]time.Duration{}, queues: map[string][]Place{}, alive: map[string]Sign{}, subs: map[string]bool{}}
}

func (k *keys) queue(state string) string { return pick(k.bug == keepsQueue, "queue", "queue:"+state) }
func (k *keys) Published() ([]Notice, error) {
	sent := k.sent
	k.sent = nil
	return sent, nil
}

func (k *keys) publish(n Notice) {
	if k.subs[n.Client] {
		k.sent = append(k.sent, n)
	}
}

func (k *keys) Swap(op Swap) (r Reply, err error) {
	fits := op.State == k.state
	freed := false
	if _, voted := k.hash[op.Out]; op.Out != "" && (fits || k.bug != refusesLeave) {
		if voted && k.bug != onlyLeaves {
			delete(k.hash, op.Out)
			r.Released, freed = true, op.Hand && (!op.OutRead || k.bug == handsAfterReaders)
		}
		q := k.queues[k.queue(op.State)]
		if i := slices.IndexFunc(q, func(p Place) bool { return p.Holder == op.Out }); i >= 0 && k.bug != onlyReleases {
			k.queues[k.queue(op.State)] = slices.Delete(q, i, i+1)
			r.Left = true
		}
	}
	if k.bug == handsUnasked && r.Released {
		freed = true
	}
	if !fits {
		r.Refused = true
		if k.bug == ignoresState && r.Released {
			k.settle(op.State, "", op.Proposal, freed)
		}
		return r, nil
	}
	switch p := op.In; {
	case p == nil && (r.Released || r.Left):
		k.settle(op.State, "", op.Proposal, freed || k.bug == handsWhatItFinds)
	case p != nil:
		r.Answer = k.enter(op, freed || k.bug == handsWhatItFinds)
	}
	return r, nil
}

// enter is the part of a Swap that queues.
func (k *keys) enter(op Swap, freed bool) Answer {
	p := *op.In
	if vote, voted := k.hash[p.Holder]; voted {
		a := Answer{Standing: Voted, Vote: k.tells(p, vote)}
		if !op.Try {
			a.Ahead = k.smaller(op.State, p)
		}
		if k.bug == replayDates {
			a.TTL = p.TTL
		}
		return a
	}
	q := k.queue(op.State)
	if op.Try && k.bug != tryQueues {
		if k.admits(p) {
			k.heads(q)
		}
		if k.admits(p) && (len(k.queues[q]) == 0 || k.bug == tryPasses) {
			return Answer{Standing: Voted, Vote: k.vote(p, p.TTL, op.Proposal), TTL: p.TTL, Ahead: k.smaller(op.State, p)}
		}
		return Answer{Standing: Gone, Held: k.left(), Stranger: k.javaHas}
	}
	if old, there := k.alive[p.Client]; k.bug == oldStamp && there {
		op.Sign.Stamp = old.Stamp
	}
	k.alive[p.Client] = op.Sign
	if k.bug == ignoresTicket {
		k.arrival++
		p.Ticket = k.arrival
	}
	if !slices.ContainsFunc(k.queues[q], func(o Place) bool { return o.Holder == p.Holder }) {
		k.queues[q] = append(k.queues[q], p)
		slices.SortFunc(k.queues[q], func(a, b Place) int {
			if a.Ticket != b.Ticket && k.bug != ordersByHolder {
				return int(a.Ticket - b.Ticket)
			}
			return strings.Compare(a.Holder, b.Holder)
		})
	}
	return k.after(op.State, p, op.Proposal, freed)
}

// after settles for a caller with a place.
func (k *keys) after(state string, p Place, proposal int64, freed bool) Answer {
	if vote := k.settle(state, p.Holder, proposal, freed); vote > 0 {
		return Answer{Standing: Voted, Vote: vote, TTL: p.TTL, Ahead: k.smaller(state, p)}
	}
	return Answer{Standing: Queued, Ahead: k.smaller(state, p), Held: k.left(), Stranger: k.javaHas}
}

func (k *keys) tells(p Place, vote int64) int64 {
	if k.reading && k.bug != readerCounter {
		return vote
	}
	return k.counter
}

func (k *keys) left() (most time.Duration) {
	for holder := range k.hash {
		most = max(most, k.ttls[holder])
	}
	if k.javaHas {
		most = PathTTL
	}
	return most
}

func (k *keys) admits(p Place) bool {
	return !k.javaHas && (len(k.hash) == 0 || k.reading && p.Read)
}

func (k *keys) vote(p Place, ttl time.Duration, proposal int64) int64 {
	if k.bug == ignoresProposal {
		proposal = 0
	}
	vote := max(k.counter+1, proposal)
	k.counter = vote
	k.reading = p.Read
	k.hash[p.Holder], k.ttls[p.Holder] = vote, ttl
	return vote
}

func (k *keys) smaller(state string, p Place) (n int) {
	if k.bug == aheadOfNobody {
		return 0
	}
	for _, o := range k.queues[k.queue(state)] {
		if o.Ticket < p.Ticket || o.Ticket == p.Ticket && o.Holder < p.Holder {
			n++
		}
	}
	return n
}

// heads drops what is dead at the head.
func (k *keys) heads(q string) {
	for len(k.queues[q]) > 0 {
		if _, alive := k.alive[k.queues[q][0].Client]; alive || k.bug == ignoresSilence {
			return
		}
		k.queues[q] = k.queues[q][1:]
	}
}

func (k *keys) hears(p Place) bool {
	sign, alive := k.alive[p.Client]
	return alive && (k.subs[p.Client] || sign.Deaf && k.bug != passesDeaf || k.bug == waitsForUnheard)
}

// settle returns the caller's vote if it has one now.
func (k *keys) settle(state, caller string, proposal int64, freed bool) int64 {
	q := k.queue(state)
	k.heads(q)
	line := k.queues[q]
	writers, others := 0, 0 // those that are waited for, before the caller
	next := -1
	for i, p := range line {
		if p.Holder == caller {
			if next < 0 {
				next = i
			}
			if k.admits(p) && (others == 0 || p.Read && (writers == 0 || k.bug == readersPassWriter)) {
				k.queues[q] = slices.Delete(slices.Clone(line), i, i+1)
				return k.vote(p, p.TTL, proposal)
			}
			break
		}
		if k.hears(p) {
			if next < 0 {
				next = i
			}
			others++
			if !p.Read {
				writers++
			}
		}
	}
	if len(line) == 0 {
		return 0
	}
	p := line[max(next, 0)]
	if next < 0 && caller != "" {
		return 0
	}
	switch {
	case !k.admits(p):
	case p.Read && k.bug != handsToReaders:
		k.wakeReaders(line, caller)
	case freed && (!k.javaSubs || k.bug == handsPastJava):
		ttl := min(p.TTL, 3*time.Second)
		if k.bug == handsLong {
			ttl = p.TTL
		}
		was := k.counter
		vote := k.vote(p, ttl, proposal)
		if k.bug == keepsCounter {
			k.counter = was
		}
		if k.bug != keepsPlace {
			k.queues[q] = slices.DeleteFunc(slices.Clone(line), func(o Place) bool { return o.Holder == p.Holder })
		}
		k.publish(Notice{p.Client, Hand{p.Holder, vote, k.alive[p.Client].Stamp, ttl}})
	default:
		k.publish(Notice{Client: p.Client})
	}
	return 0
}

func (k *keys) wakeReaders(line []Place, caller string) {
	woken := map[string]bool{}
	for _, p := range line {
		if !p.Read && k.hears(p) {
			return
		}
		if _, alive := k.alive[p.Client]; p.Read && alive && p.Holder != caller && !woken[p.Client] {
			woken[p.Client] = true
			k.publish(Notice{Client: p.Client})
		}
	}
}

func (k *keys) Claim(op ClaimOp) (r Reply, err error) {
	if op.State != k.state && k.bug != claimsAnyState {
		return Reply{Refused: true}, nil
	}
	p, q := op.Place, k.queue(op.State)
	k.heads(q)
	if vote, voted := k.hash[p.Holder]; voted {
		if k.bug != claimKeepsTTL {
			k.ttls[p.Holder] = p.TTL
		}
		if op.Token > k.counter && k.bug != claimIgnoresToken {
			k.counter, k.hash[p.Holder] = op.Token, op.Token
			vote = op.Token
		}
		return Reply{Answer: Answer{Standing: Voted, Vote: k.tells(p, vote), TTL: p.TTL, Ahead: k.smaller(op.State, p)}}, nil
	}
	if k.bug == claimAnyOwner {
		k.counter = max(k.counter, op.Token)
	}
	if !slices.ContainsFunc(k.queues[q], func(o Place) bool { return o.Holder == p.Holder }) {
		if k.bug != claimQueues {
			return Reply{Answer: Answer{Standing: Gone, Held: k.left(), Stranger: k.javaHas}}, nil
		}
		k.queues[q] = append(k.queues[q], p)
	}
	return Reply{Answer: k.after(op.State, p, op.Proposal, k.bug == handsWhatItFinds)}, nil
}

func (k *keys) Beat(client string, sign Sign) error {
	if old, there := k.alive[client]; k.bug == oldStamp && there {
		sign.Stamp = old.Stamp
	}
	k.alive[client] = sign
	return nil
}

func (k *keys) Expire(holder string) error          { delete(k.hash, holder); return nil }
func (k *keys) Lapse(client string) error           { delete(k.alive, client); return nil }
func (k *keys) Listen(client string, on bool) error { k.subs[client] = on; return nil }
func (k *keys) JavaWaits(on bool) error             { k.javaSubs = on; return nil }
func (k *keys) SetState(state string) error         { k.state = state; return nil }
func (k *keys) JavaHolds(on bool) (bool, error) {
	could := on && !k.javaHas && len(k.hash) == 0 || !on && k.javaHas
	if could {
		k.javaHas = on
	}
	return could, nil
}

func TestReplay_masterOfKeys_agrees(t *testing.T) {
	first, n := seed(t), often(5000, 200_000)
	seen := map[string]int{}
	for i, path := range Paths(first, n) {
		if err := Replay(path, newKeys("")); err != nil {
			t.Fatalf("path %d: %v", first+uint64(i), err)
		}
		for _, s := range path {
			if s.Event != Swapped && s.Event != Claimed {
				continue
			}
			what := fmt.Sprint(s.Event, " ", s.Reply.Standing)
			for _, m := range s.Notices {
				seen[pick(m.Hand.Holder == "", "wake", "hand")]++
			}
			seen[what]++
			seen["released"] += boolTo[int](s.Reply.Released)
			seen["left"] += boolTo[int](s.Reply.Left)
			seen["refused"] += boolTo[int](s.Reply.Refused)
		}
	}
	t.Log(seen)
	// Every answer must have been given often, or the agreement means little.
	for what, least := range map[string]int{
		"0 silent": n, "0 queued": n, "0 voted": n, "0 gone": n / 10, "1 queued": n, "1 voted": n, "1 gone": n / 10,
		"wake": n / 10, "hand": n / 2, "released": n, "left": n, "refused": n,
	} {
		if seen[what] < least {
			t.Errorf("%q was answered %d times in %d paths, want %d", what, seen[what], n, least)
		}
	}
}

func TestReplay_brokenMaster_diverges(t *testing.T) {
	paths := Paths(1, 2000)
	for _, b := range []bug{
		ignoresState, claimsAnyState, refusesLeave, keepsQueue, onlyReleases, onlyLeaves, handsWhatItFinds, handsUnasked, handsAfterReaders,
		handsLong, keepsPlace, keepsCounter, ignoresProposal, ignoresTicket, ordersByHolder, ignoresSilence, waitsForUnheard, passesDeaf, oldStamp,
		claimQueues, claimIgnoresToken, claimAnyOwner, claimKeepsTTL, readerCounter, readersPassWriter, handsToReaders, handsPastJava,
		tryQueues, tryPasses, replayDates, aheadOfNobody,
	} {
		var found *DivergenceError
		for i := 0; i < len(paths) && !errors.As(Replay(paths[i], newKeys(b)), &found); i++ {
		}
		if found == nil {
			t.Errorf("a master that %s agrees with the model", b)
		} else if !strings.Contains(found.Error(), found.Got.String()) {
			t.Errorf("%v does not tell what the master did", found)
		}
	}
}
