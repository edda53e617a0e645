// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
)

// book is what those who use features have done and seen, by their own account. The world's mutex guards it.
type book struct {
	terms, permits []*turn
	sights         []sight
	calls          []*call
	multis         []*bundle
	jobs           []*job
	loads          []*load
}

// A turn is that somebody leads, or has a permit. It ends when its context does.
type turn struct {
	*given
	value string // what a leader announces
	slot  int    // of a permit
	ended time.Time
}

// bundle is a multi lock that is held.
type bundle struct {
	began, ended time.Time
	members      []*given
}

type job struct {
	called, began time.Time
	*given
}

type load struct {
	key          string
	again        bool // it was there already
	began, ended time.Time
	*given
}

// A sight is what an observer of an election was shown.
type sight struct {
	observer *process
	token    int64
	value    string
	none     bool // nobody leads
}

// A call waits for a permit, or does not.
type call struct {
	from, until time.Time
	waits, has  bool
}

func (w *features) begins(list *[]*turn, t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.of.dead.Load() {
		*list = append(*list, t)
	}
}

// ends notes that who had the turn does not work under it any more.
func (w *features) ends(t *turn, ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.ended = time.Now()
}

func (w *features) sees(p *process, token int64, value string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sights = append(w.sights, sight{p, token, value, err != nil})
}

func (w *features) isQuiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet
}

// calls notes that a permit is asked for. It is judged if that is in the quiet.
func (w *features) calls(waits bool) *call {
	c := &call{from: time.Now(), waits: waits}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet {
		w.book.calls = append(w.book.calls, c)
	}
	return c
}

func (w *features) served(c *call, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.until, c.has = time.Now(), err == nil
}

// watchKeys looks whether a client stays within its namespace: the keys of scripts, the channels that it subscribes to and those of messages.
func (w *features) watchKeys(p *process, cmd nodetest.Command) {
	names := cmd.Keys
	switch cmd.Name {
	case "message":
		names = cmd.Args[:1]
	case "subscribe", "unsubscribe":
		names = cmd.Args
	}
	if k := foreign(p.team, names); k != "" {
		w.wrong("namespaces", "a client of namespace %q has %q in %q", p.team, k, cmd.Name)
	}
}

// foreign is the first of the names that is not of the namespace, or empty.
func foreign(namespace string, names []string) string {
	for _, k := range names {
		of := ""
		if _, rest, ok := strings.Cut(k, "redlock:ns:"); ok {
			of, _, _ = strings.Cut(rest, ":")
		}
		if of != namespace {
			return k
		}
	}
	return ""
}

// inCalm waits while nothing fails, and looks whether everybody sees the leader.
func (w *features) inCalm() {
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	time.Sleep(8 * time.Second)
	if w.plays("lead") {
		w.everybodySees()
	}
	w.end()
}

// everybodySees looks whether each process sees last who leads now.
func (w *features) everybodySees() {
	w.mu.Lock()
	defer w.mu.Unlock()
	leads := &turn{given: &given{over: true}}
	if n := len(w.terms); n > 0 {
		leads = w.terms[n-1]
	}
	if leads.over {
		w.wrong("leaders", "nobody leads in the calm")
	}
	last := make(map[*process]sight)
	for _, s := range w.sights {
		last[s.observer] = s
	}
	for i := range w.slots {
		if s := last[w.slots[i].Load()]; s.token != leads.token || s.value != leads.value {
			w.wrong("observed", "process %d sees token %d and %q last, and %d leads with %q", i, s.token, s.value, leads.token, leads.value)
		}
	}
}

// keepsNothing looks whether a multi lock that could not be had has left something.
func (w *features) keepsNothing(ctx context.Context, p *process) {
	sleepFor(ctx, 50*time.Millisecond)
	if !w.isQuiet() || ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	client := ""
	for _, g := range w.grants {
		if g.of == p {
			client, _, _ = strings.Cut(g.Holder(), ":")
		}
	}
	w.mu.Unlock()
	for _, name := range []string{"a", "b", "c"} {
		for i, holder := range w.holders(name) {
			if of, _, _ := strings.Cut(holder, ":"); of == client && of != "" {
				w.wrong("all or nothing", "m%d has the vote of %s for %s, and its multi lock was refused", i, holder, name)
			}
		}
	}
}

// claims are the turns as their checkers get them. The turn of a process that was killed lasts for as long as its lease, and one that was
// forced to the end that the operator made.
func (w *features) claims(turns []*turn) (all []claim) {
	for _, t := range turns {
		c := claim{span: t.span, value: t.value, slot: t.slot, taken: t.taken, told: t.ended}
		c.until = t.ended
		if t.of.dead.Load() {
			c.until = t.given.until
		}
		if t.of.dead.Load() || t.excused {
			c.told = time.Time{}
		}
		if t.forced && t.taken.Before(c.until) {
			c.until = t.taken
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b claim) int { return a.from.Compare(b.from) })
	for i := range all {
		for k := range i {
			if all[k].until.After(all[i].from) && w.unnoticed(all[i].from) && all[k].slot == all[i].slot {
				all[k].until = all[i].from
			}
		}
	}
	return all
}

// judgeBook has the checkers judge what was written down.
func (w *features) judgeBook() {
	terms := w.claims(w.terms)
	say := func(checker string, wrong []string) {
		for _, text := range wrong {
			w.wrong(checker, "%s", text)
		}
	}
	say("leaders", leaders(terms))
	say("observed", sawLeaders(w.sights, terms))
	say("permits", permits(w.claims(w.permits), permitsInAll))
	say("order", passed(w.book.calls))
	say("periods", periods(w.runs(), period))
	say("one load", w.twice())
	say("all or nothing", w.apart())
}

// runs are the jobs, and whether a quorum of masters knew of each until the next began.
func (w *features) runs() (all []run) {
	jobs := slices.Clone(w.jobs)
	slices.SortStableFunc(jobs, func(a, b *job) int { return a.began.Compare(b.began) })
	for k, j := range jobs {
		r, know := run{called: j.called, began: j.began}, 0
		if k+1 < len(jobs) {
			for i, rest := range j.rests {
				lost := slices.ContainsFunc(w.losses[i], func(at time.Time) bool { return !at.Before(j.called) && at.Before(jobs[k+1].began) })
				if !rest.IsZero() && !lost {
					know++
				}
			}
			r.known = know > 2 && !j.forced
		}
		all = append(all, r)
	}
	return all
}

// twice are loads of what was there, and two of one thing at one time. A loader that was forced may go on beside the next one until it is told.
func (w *features) twice() (wrong []string) {
	slices.SortStableFunc(w.loads, func(a, b *load) int { return a.began.Compare(b.began) })
	doubted := make(map[string]bool)
	var clean []span
	for _, l := range w.loads {
		if l.again && !doubted[l.key] {
			wrong = append(wrong, fmt.Sprintf("%s was loaded at %v, and was there", l.key, l.began))
		}
		doubted[l.key] = doubted[l.key] || l.forced || l.excused
		if s := l.span; !l.of.dead.Load() {
			s.from, s.until = l.began, l.ended
			if l.forced && l.taken.Before(s.until) {
				s.until = l.taken
			}
			clean = append(clean, s)
		}
	}
	_, more := overlaps(clean)
	return append(wrong, more...)
}

// apart are multi locks that went on while another had a member.
func (w *features) apart() (wrong []string) {
	for _, m := range w.multis {
		dead := false
		for _, g := range m.members {
			dead = dead || g.of.dead.Load()
		}
		for _, g := range m.members {
			until := m.ended
			if g.forced && g.taken.Before(until) {
				if late := until.Sub(g.taken); late > longest+time.Second && !g.excused {
					wrong = append(wrong, fmt.Sprintf("a multi lock went on for %v after %s was forced", late, g.Name()))
				}
				until = g.taken
			}
			for _, other := range w.sorted(g.Name()) {
				if other != g && !dead && other.from.After(m.began) && other.from.Before(until) && !w.unnoticed(other.from) {
					wrong = append(wrong, fmt.Sprintf("%s has %s from %v, and a multi lock until %v", other.who, g.Name(), other.from, until))
				}
			}
		}
	}
	return wrong
}
