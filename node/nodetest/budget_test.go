// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// The commands that a script calls for each act are those of the table in docs/internals/algorithm.md: that is the budget.
func TestScripts_commandsOfEachAct_asDocumented(t *testing.T) {
	withQueue(t, func(q *queue) {
		budget := budgets(t)
		var called []string
		q.m.calls = func(command string) { called = append(called, command) }
		costs := func(act string, do func()) {
			t.Helper()
			called = nil
			do()
			want, ok := budget[act]
			delete(budget, act)
			if !ok || !slices.Equal(called, want) {
				t.Errorf("%s: a script called %d commands, %q, and docs/internals/algorithm.md has %d, %q", act, len(called), called, len(want), want)
			}
		}
		granted := func(r protocol.Reply) {
			t.Helper()
			if r.Outcome != protocol.Granted {
				t.Fatalf("%+v", r)
			}
		}
		queued := func(r protocol.Reply, ahead int) {
			t.Helper()
			if r.Outcome != protocol.Held || r.Ticket == 0 || r.Ahead != ahead {
				t.Fatalf("%+v", r)
			}
		}
		plain := protocol.NewLock(handLock, protocol.Plain)
		for _, client := range []string{bob, carol} { // hear, and so their acquires say nothing else
			q.Subscribe(protocol.Wake(client))
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		granted(q.acquire(carol+":0", 1)) // the first acquire asks for TIME, and those of the next minute do not
		q.release(carol + ":0")

		costs("acquire of a free lock", func() { granted(q.acquire(alice+":1", 5)) })
		costs("extend", func() {
			granted(q.ask(protocol.Request{Kind: protocol.Extend, TTL: 10 * time.Second, Items: []protocol.Item{{Lock: plain, Holder: alice + ":1"}}}))
		})
		costs("confirm", func() {
			granted(q.ask(protocol.Request{Kind: protocol.Confirm, Lock: plain, Holder: alice + ":1", Token: 99}))
		})
		costs("queue: acquire of a held lock", func() { queued(q.acquire(bob+":1", 20), 0) })
		costs("dequeue: release of a place", func() { q.release(bob + ":1") })
		costs("release that nobody waits for", func() { granted(q.release(alice + ":1")) })
		granted(q.acquire(alice+":2", 5))
		queued(q.acquire(bob+":2", 20), 0)
		costs("hand: release to the head of the queue", func() { granted(q.release(alice + ":2")) })
		queued(q.acquire(carol+":2", 30), 0)
		release := protocol.Request{Kind: protocol.Release, Lock: plain, Holder: bob + ":2", Hand: liveness, Token: 1}
		next := protocol.Request{Kind: protocol.Acquire, Lock: plain, Holder: bob + ":3", TTL: 10 * time.Second, Wait: &protocol.Wait{Ticket: 40, Liveness: liveness}}
		costs("hand, with the next caller's acquire in its call", func() { queued(q.askAll([]protocol.Request{release, next})[1], 0) })
		if hands, _ := q.hands(); len(hands) != 2 {
			t.Errorf("handed %d times, want twice", len(hands))
		}
		_ = q.m.Do(func(db *DB) { db.Del(handLock) })
		costs("top-up", func() {
			granted(q.ask(protocol.Request{Kind: protocol.TopUp, Lock: plain, Holder: carol + ":2", TTL: 10 * time.Second, Count: 1}))
		})
		costs("adopt", func() {
			granted(q.ask(protocol.Request{Kind: protocol.Adopt, Lock: plain, Holder: alice + ":4", From: carol + ":2", TTL: 10 * time.Second, Voted: votingState(1).String()}))
		})
		costs("take over within a process", func() {
			granted(q.ask(protocol.Request{Kind: protocol.Adopt, Lock: plain, Holder: alice + ":6", From: alice + ":4", TTL: 10 * time.Second, Passed: true}))
		})
		var many []protocol.Request
		for _, name := range []string{"a", "b", "c", "d"} {
			l := protocol.NewLock(name, protocol.Plain)
			many = append(many, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: alice + ":5", TTL: 10 * time.Second})
		}
		costs("four acquires of free locks in one call", func() { granted(q.askAll(many)[3]) })
		for i := range many {
			many[i] = protocol.Request{Kind: protocol.Release, Lock: many[i].Lock, Holder: alice + ":5", Hand: liveness}
		}
		costs("four releases that nobody waits for, in one call", func() { granted(q.askAll(many)[3]) })
		for act := range budget {
			t.Errorf("docs/internals/algorithm.md has a budget for %q, and nothing is measured", act)
		}
	})
}

// budgets reads the table: the commands by act.
func budgets(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/internals/algorithm.md")
	if err != nil {
		t.Fatal(err)
	}
	const title = "| act | commands | which |\n| --- | --- | --- |\n"
	_, table, ok := strings.Cut(string(doc), title)
	if !ok {
		t.Fatal("docs/internals/algorithm.md has no table of what an act costs")
	}
	all := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 {
			break
		}
		all[strings.TrimPrefix(cells[0], "| ")] = strings.Fields(strings.ToLower(strings.Trim(cells[2], "| ")))
	}
	return all
}

// A hold count is a field that others write. No script runs over any number of holds: one that has written cannot be killed.
func TestScripts_holdCountOfAnother_isBounded(t *testing.T) {
	for _, count := range []string{"20000", "1e999", "inf", "nan", "-1", "x"} {
		withQueue(t, func(q *queue) {
			called := 0
			q.m.calls = func(string) { called++ }
			read := protocol.NewLock(handLock, protocol.Read)
			for _, mode := range []string{"read", "write", "dark"} {
				_ = q.m.Do(func(db *DB) {
					db.Del(handLock)
					db.HSet(handLock, "mode", mode)
					db.HSet(handLock, "44444444-4444-4444-4444-444444444444:1", count)
					db.PExpire(handLock, 60_000)
				})
				q.ask(protocol.Request{Kind: protocol.Inspect, Lock: read})
				q.ask(protocol.Request{Kind: protocol.Acquire, Lock: read, Holder: alice + ":1", TTL: 10 * time.Second, Token: 1})
				q.ask(protocol.Request{Kind: protocol.Release, Lock: read, Holder: alice + ":1", Hand: liveness})
				_ = q.m.Do(func(db *DB) { db.HSet(handLock, alice+":2:write", "1") })
				q.ask(protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock(handLock, protocol.Write), Holder: alice + ":2", Hand: liveness})
			}
			if called > 60_000 {
				t.Errorf("a count of %s: the scripts called %d commands", count, called)
			}
		})
	}
}
