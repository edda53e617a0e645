// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

var filledIn = regexp.MustCompile(`\\\{[a-z]+\\\}`)

// wantMessage checks that text has the message of that word, whatever is filled in.
func wantMessage(t testing.TB, text, word string) {
	t.Helper()
	i := slices.IndexFunc(membership.Messages(), func(m membership.Message) bool { return m.Word == word })
	if i < 0 {
		t.Fatalf("no message %q", word)
	}
	m := membership.Messages()[i]
	want := m.Text
	if m.Remedy != "" {
		want += "; " + m.Remedy
	}
	pattern := filledIn.ReplaceAllString(regexp.QuoteMeta(want), ".+")
	if text = strings.Join(strings.Fields(text), " "); !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s\nhas not %s: %s", text, word, want)
	}
}

// fails runs a command, which must end with the message of that word, and returns what it said.
func (a *advised) fails(code int, word string, words ...string) (said string) {
	a.t.Helper()
	got, stdout, stderr := cli(a.t, append(words, "--max-ttl", a.ttl.String())...)
	if said = strings.Join(strings.Fields(stdout+stderr), " "); got != code {
		a.t.Errorf("%v: exit code %d, want %d: %s", words, got, code, said)
	}
	wantMessage(a.t, said, word)
	a.hears(said)
	return said
}

// looks calls status, which must have that reason and exit code.
func (a *advised) looks(code int, reason string) (text string) {
	a.t.Helper()
	s := a.status()
	if s.ExitCode != code || s.Reason != reason {
		a.t.Errorf("%s (%s), %d: %s\nwant %s, %d", s.Standing, s.Reason, s.ExitCode, s.Text, reason, code)
	}
	wantMessage(a.t, s.Text, reason)
	return s.Text
}

// of is the list of those masters.
func (a *advised) of(masters ...int) string {
	var urls []string
	for _, i := range masters {
		urls = append(urls, a.servers[i].URL())
	}
	return strings.Join(urls, ",")
}

// uses gives programs another list.
func (a *advised) uses(list string) { a.urls = strings.Split(list, ",") }

// empties takes the data of a master.
func (a *advised) empties(masters ...int) {
	a.t.Helper()
	for _, i := range masters {
		must(a.t, direct(a.t, a.servers[i].URL()).FlushAll(a.t.Context()).Err())
	}
}

func (a *advised) kills(masters ...int) {
	a.t.Helper()
	for _, i := range masters {
		must(a.t, a.servers[i].Kill())
	}
}

func (a *advised) starts(masters ...int) {
	a.t.Helper()
	for _, i := range masters {
		must(a.t, a.servers[i].Restart(a.t.Context()))
	}
}

// changes begins a change to that list, and leaves it when the old masters are retired.
func (a *advised) changes(to string) {
	a.t.Helper()
	a.interrupt("all locks are stopped", "reconfigure", "--max-ttl", a.ttl.String(), "--from", a.list(), "--to", to)
}

// situations are what masters can be in when somebody begins, changes or recovers a list: what the command says, and who does it.
// TestAdvice_isTrue has those that an operator meets without a command of his.
var situations = []struct {
	word string
	play func(a *advised)
}{
	{"masters recover", func(a *advised) {
		a.empties(2)
		code, _, stderr := cli(a.t, "status", "--wait", "--max-ttl", a.ttl.String(), "--nodes", a.list())
		if code != exitOK {
			a.t.Errorf("exit code %d", code)
		}
		wantSaid(a.t, strings.Join(strings.Fields(stderr), " "), "votes in about")
		a.empties(0, 1, 2)
		a.init = program(a.t, "init", "--max-ttl", a.ttl.String(), "--nodes", a.list()).start()
		eventually(a.t, "it waits", func() bool { return strings.Contains(a.init.stderr.String(), "left") })
		a.since, a.named = time.Now(), a.ttl
		wantMessage(a.t, a.init.stderr.String(), "masters recover")
	}},
	{"records contradict", func(a *advised) {
		a.empties(1, 2)
		a.since, a.named = time.Now(), 2*a.ttl // the last master votes after a second wait
		code, _, stderr := cli(a.t, "init", never, "--max-ttl", a.ttl.String(), "--nodes", a.list())
		if took := time.Since(a.since); code != exitOK || took < a.ttl {
			a.t.Errorf("exit code %d after %v", code, took)
		}
		wantMessage(a.t, stderr, "records contradict")
	}},
	{"init needs every master", func(a *advised) {
		a.empties(0, 1, 2)
		a.kills(2)
		wantSaid(a.t, a.fails(exitMasters, "init needs every master", "init", "--nodes", a.list()), "start the master")
		a.starts(2)
		again := a.status()
		a.obey(again.Text, "init")
	}},
	{"too few records", func(a *advised) { // nothing was begun, and two are down
		a.kills(1, 2)
		wantSaid(a.t, a.fails(exitMasters, "too few records", "cancel", "--nodes", a.list()), "connection refused")
		a.starts(1, 2)
		again := a.status()
		a.obey(again.Text, "init")
	}},
	{"masters forgot", func(a *advised) {
		a.empties(1, 2)
		a.obey(a.looks(exitNeedsInit, "masters forgot"), "init")
	}},
	{"needs masters", func(a *advised) {
		a.empties(0, 1)
		a.kills(2)
		said := a.looks(exitNeedsMasters, "needs masters")
		wantSaid(a.t, said, "start an empty server under its old name")
		a.urls[2] = a.servers[3].URL() + "?name=" + a.servers[2].Addr()
		a.obey(said, "init")
	}},
	{"list left", func(a *advised) {
		next := a.of(1, 2, 3)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", a.list(), "--to", next)
		wantSaid(a.t, a.looks(exitRefused, "list left"), "start this client with the new list")
		a.uses(next)
		a.since = time.Now()
	}},
	{"list left", func(a *advised) { // the same change once more, when its new list was left as well
		old, next, last := a.list(), a.of(1, 2, 3), a.of(3, 4, 5)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", old, "--to", next)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", next, "--to", last)
		said := a.fails(exitRefused, "list left", "reconfigure", "--from", old, "--to", next)
		wantSaid(a.t, said, a.servers[5].Addr())
		if strings.Contains(said, "all locks are stopped") || strings.Contains(said, "redlock init") {
			a.t.Errorf("locks work with the last list, and it says %s", said)
		}
		a.uses(last)
		a.since = time.Now()
	}},
	{"list left", func(a *advised) { // and somebody wants to change it once more, to a third list
		old, next := a.list(), a.of(1, 2, 3)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", old, "--to", next)
		for range 2 {
			a.fails(exitRefused, "list left", "reconfigure", "--from", old, "--to", a.of(3, 4, 5))
			a.fails(exitRefused, "list left", "cancel", "--nodes", old)
		}
		a.uses(next)
		a.since = time.Now()
	}},
	{"list left, init", func(a *advised) { // the change died, and an init began its new list
		old, next := a.list(), a.of(3, 4, 5)
		a.changes(next)
		a.kills(4, 5)
		a.starts(4, 5) // with no data
		expectCode(a.t, exitOK, "init", "--abandon-change", "--max-ttl", a.ttl.String(), "--nodes", next)
		said := a.fails(exitChanging, "change unfinished", "init", "--nodes", old)
		if wantSaid(a.t, said, "and no new master votes (redlock status --nodes NEW_URLS --max-ttl"); strings.Contains(said, "redlock cancel") {
			a.t.Errorf("no majority of the old list votes: %s", said)
		}
		a.fails(exitRefused, "list left", "reconfigure", "--from", old, "--to", next) // which was advised, and tells the old masters
		a.fails(exitRefused, "list left", "cancel", "--nodes", old)
		a.looks(exitRefused, "list left")
		for _, words := range [][]string{{"init"}, {"init", "--abandon-change"}} {
			a.fails(exitRefused, "list left, init", append(words, "--nodes", old)...)
		}
		a.uses(next)
		a.since = time.Now()
	}},
	{"list left, init", func(a *advised) {
		old, next := a.list(), a.of(1, 2, 3)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", old, "--to", next)
		said := a.fails(exitRefused, "list left, init", "init", "--nodes", old)
		a.uses(next)
		a.obey(said, "reconfigure", old)
		a.uses(old)
	}},
	{"change unfinished", func(a *advised) {
		a.changes(a.of(1, 2, 3))
		said := a.fails(exitChanging, "change unfinished", "init", "--nodes", a.list())
		a.obey(said, "reconfigure", a.of(1, 2, 3))
		a.uses(a.of(1, 2, 3))
	}},
	{"change prepared", func(a *advised) { // it never began, and somebody asks for its new list
		old, next := a.list(), a.of(3, 4, 5)
		a.kills(5)
		a.uses(next)
		for range 50 { // it begins anywhere in its list, and ends where it meets the master that is gone
			if s := a.status(); s.Reason == "change prepared" {
				break
			}
			a.fails(exitMasters, "master not ready", "reconfigure", "--from", old, "--to", next)
		}
		a.starts(5)
		said := a.looks(exitChanging, "change prepared")
		a.fails(exitChanging, "change prepared", "init", "--nodes", next)
		a.works(strings.Split(old, ","))
		a.uses(old)
		a.obey(said, "reconfigure", next)
		a.uses(next)
	}},
	{"other flags", func(a *advised) { // the change prepared masters of its new list, for another maximum TTL than is asked for
		old, next := a.list(), a.of(3, 4, 5)
		a.interrupt("all locks are stopped", "reconfigure", "--max-ttl", a.ttl.String(), "--from", old, "--to", next, "--to-max-ttl", "4s")
		a.uses(next)
		for _, words := range [][]string{{"status"}, {"status", "--wait"}, {"init"}, {"doctor"}} {
			said := a.fails(exitRefused, "other flags", append(words, "--nodes", next)...)
			if wantSaid(a.t, said, "so give --max-ttl 4s"); strings.Contains(said, "redlock init") || strings.Contains(said, "redlock reconfigure") {
				a.t.Error(said)
			}
		}
		a.ttl = 4 * time.Second
		said := a.fails(exitChanging, "change prepared", "cancel", "--nodes", next)
		a.uses(old)
		a.obey(said, "reconfigure", next)
		a.uses(next)
	}},
	{"other maximum TTL or drift", func(a *advised) { // all masters answer, and vote
		right := a.ttl
		a.ttl = 7 * time.Second
		for _, words := range [][]string{{"cancel", "--nodes", a.list()}, {"reconfigure", "--from", a.list(), "--to", a.of(3, 4, 5)}} {
			wantSaid(a.t, a.fails(exitRefused, "other maximum TTL or drift", words...), "so give --max-ttl "+right.String())
		}
		a.ttl, a.since = right, time.Now()
	}},
	{"other change", func(a *advised) {
		a.interrupt("all locks are stopped", "reconfigure", "--max-ttl", a.ttl.String(), "--to-max-ttl", "4s", "--from", a.list(), "--to", a.of(1, 2, 3))
		said := a.fails(exitChanging, "other change", "reconfigure", "--from", a.list(), "--to", a.of(0, 1, 3), "--to-max-ttl", "9s")
		if strings.Contains(said, "redlock cancel") {
			a.t.Errorf("no majority of the old list votes: %s", said)
		}
		a.fails(exitChanging, "other change", "reconfigure", "--from", a.list(), "--to", a.of(1, 2, 3))
		a.obey(said, "reconfigure", a.of(1, 2, 3))
		a.uses(a.of(1, 2, 3))
		a.ttl = 4 * time.Second
	}},
	{"other change", func(a *advised) {
		a.changes(a.of(1, 2, 3))
		said := a.fails(exitChanging, "other change", "reconfigure", "--from", a.list(), "--to", a.of(0, 1, 3))
		a.obey(said, "reconfigure", a.of(1, 2, 3))
		a.uses(a.of(1, 2, 3))
	}},
	{"too late to cancel", func(a *advised) {
		a.changes(a.of(1, 2, 3))
		said := a.fails(exitChanging, "too late to cancel", "cancel", "--nodes", a.list())
		a.obey(said, "reconfigure", a.of(1, 2, 3))
		a.uses(a.of(1, 2, 3))
	}},
	{"too few records", func(a *advised) {
		a.empties(1, 2)
		said := a.fails(exitMasters, "too few records", "reconfigure", "--from", a.list(), "--to-max-ttl", "4s")
		wantSaid(a.t, said, "redlock status")
		again := a.status()
		a.obey(again.Text, "init")
	}},
	{"master not ready", func(a *advised) {
		a.kills(3)
		said := a.fails(exitMasters, "master not ready", "reconfigure", "--from", a.list(), "--to", a.of(1, 2, 3))
		wantSaid(a.t, said, "start the master", "nothing has stopped")
		a.works(a.urls)
		a.starts(3)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", a.list(), "--to", a.of(1, 2, 3))
		a.uses(a.of(1, 2, 3))
		a.since = time.Now()
	}},
	{"new list votes", func(a *advised) { // somebody began the new masters, instead of leaving that to the change
		next := a.of(3, 4, 5)
		expectCode(a.t, exitOK, "init", never, "--max-ttl", a.ttl.String(), "--nodes", next)
		wantSaid(a.t, a.fails(exitRefused, "new list votes", "reconfigure", "--from", a.list(), "--to", next), "delete the key of the record on each of its masters")
		a.works(a.urls)
		for _, s := range a.servers[3:6] {
			must(a.t, direct(a.t, s.URL()).Del(a.t.Context(), protocol.RecordKey).Err())
		}
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", a.list(), "--to", next)
		a.uses(next)
		a.since = time.Now()
	}},
	{"too few ready", func(a *advised) {
		next := a.of(3, 4, 5)
		a.changes(next)
		a.kills(3, 4, 5)
		said := a.fails(exitMasters, "too few ready", "reconfigure", "--from", a.list(), "--to", next)
		wantMessage(a.t, said, "too few ready yet")
		wantSaid(a.t, said, "start those that are out of reach")
		a.starts(3, 4, 5) // with no data
		a.uses(next)
		a.obey(said, "init")
	}},
	{"too few ready", func(a *advised) { // one new master is left: it alone does not begin the new list, and the old one can be begun
		old, next := a.list(), a.of(3, 4, 5)
		a.changes(next)
		a.kills(4, 5)
		said := a.fails(exitMasters, "too few ready", "reconfigure", "--from", old, "--to", next)
		_, theOld, _ := strings.Cut(said, "the old one: ")
		a.obey(theOld, "init")
	}},
	{"change stuck", func(a *advised) { // neither reconfigure nor cancel goes on
		next := a.of(3, 4, 5)
		a.changes(next)
		a.empties(1, 2)
		a.fails(exitMasters, "change stuck", "reconfigure", "--from", a.list(), "--to", next)
		a.fails(exitChanging, "too late to cancel", "cancel", "--nodes", a.list())
		a.obey(a.looks(exitNeedsInit, "change stuck"), "init")
	}},
	{"new list begun", func(a *advised) {
		old, next := a.list(), a.of(3, 4, 5)
		expectCode(a.t, exitOK, "reconfigure", "--max-ttl", a.ttl.String(), "--from", old, "--to", next)
		a.kills(4, 5)
		said := a.fails(exitMasters, "new list begun", "reconfigure", "--from", old, "--to", next)
		a.starts(4, 5) // with no data
		a.uses(next)
		a.obey(said, "init")
	}},
	{"nothing to change", func(a *advised) {
		a.fails(exitRefused, "nothing to change", "reconfigure", "--from", a.list())
	}},
}

// What each command says is true: who does it has locks that work within the time that was named.
func TestAdvice_situations_areTrue(t *testing.T) {
	needs.Test(t) // it waits for a minute
	t.Parallel()
	inHalves(t, 6, len(situations), func(t *testing.T, servers []*localredis.Server, i int) {
		t.Run(situations[i].word, func(t *testing.T) {
			stall.Try(t, time.Second, func(t testing.TB) {
				a := newAdvised(t, servers)
				a.since = time.Now()
				situations[i].play(a)
				a.worksInTime()
			})
		})
	})
}
