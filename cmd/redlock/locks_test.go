// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/redlock"
)

// outage is for how long a machine may keep masters that are up from answering whoever locks.
const outage = 20 * time.Second

// openClient is a program that locks on the masters of list. A machine that is busy for less than a second is not a master that does not answer.
func openClient(t testing.TB, list string, opts ...redlock.Option) *redlock.Client {
	t.Helper()
	patient := []redlock.Option{redlock.WithNodeTimeout(time.Second), redlock.WithOutageTimeout(outage)}
	c, err := redlock.Open(t.Context(), strings.Split(list, ","), append(patient, opts...)...)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// take takes a lock for the rest of the test.
func take(t testing.TB, c *redlock.Client, name string) *redlock.Lease {
	t.Helper()
	lease, err := c.Mutex(name).Lock(t.Context())
	must(t, err)
	return lease
}

// ids hides what differs in each run.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}(:[0-9]+)?|[0-9]{16}|127\.0\.0\.1:[0-9]+|[0-9-]{10} [0-9:.]+ UTC|\d+(\.\d)?m?s\b`)

func hideIDs(s string) string {
	return ids.ReplaceAllStringFunc(s, func(id string) string {
		switch {
		case strings.HasPrefix(id, "127."):
			return "MASTER"
		case strings.HasSuffix(id, "s"):
			return "TIME"
		case strings.HasSuffix(id, "UTC"):
			return "MOMENT"
		case len(id) == 16:
			return "COUNTER"
		}
		return "ID"
	})
}

// says checks what a command prints, when every master has answered in time.
func says(t testing.TB, want string, args ...string) {
	t.Helper()
	said := ""
	for range 20 {
		if said = hideIDs(expectCode(t, exitOK, args...)); said == want {
			return
		}
	}
	t.Errorf("%s\nwant\n%s", said, want)
}

func TestInspect_heldAndWaitedFor(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	want := "free no holder can have a quorum of votes as of MOMENT master counter left vote MASTER COUNTER - none MASTER COUNTER - none MASTER COUNTER - none"
	says(t, want, "inspect", "a", "--nodes", list)
	lease := take(t, openClient(t, list, redlock.WithClientName("billing/pod-7")), "a")
	waiter := startRun(t, list, "a", "--owner", "other/1", "--", "true")
	inspected := func() (s lockJSON) {
		code, stdout, stderr := cli(t, "inspect", "a", "--json", "--nodes", list)
		if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitOK {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		return s
	}
	var s lockJSON
	eventually(t, "it waits", func() bool {
		s = inspected()
		return len(s.Waiters) == 1 && s.Waiters[0].Places == 3 && len(s.Holders) == 1 && s.Holders[0].Votes == 3
	})
	if s.Name != "a" || s.Verdict != "held" || s.Quorum != 2 || len(s.Holders) != 1 || s.Waiters[0].Owner != "other/1" || len(s.Masters) != 3 {
		t.Errorf("%+v", s)
	}
	if h := s.Holders[0]; h.ID != lease.Holder() || h.Owner != "billing/pod-7" || h.Votes != 3 || h.Count != 1 || h.LeftMS <= 0 {
		t.Errorf("%+v", h)
	}
	for _, m := range s.Masters {
		if !m.Votes || !slices.Equal(m.Holders, []string{lease.Holder()}) || m.Counter != lease.Token() || m.Error != "" {
			t.Errorf("%+v", m)
		}
	}
	want = "held by billing/pod-7, with 3 of 3 votes, for another TIME unless it renews them; id ID waits 1. other/1 for TIME as of MOMENT master counter left vote" +
		strings.Repeat(" MASTER COUNTER TIME ID", 3)
	says(t, want, "inspect", "a", "--nodes", list)
	must(t, lease.Unlock(t.Context()))
	waiter.wantCode(0)
}

// A master that lost its record has the vote again with the next renewal, and it counts for nobody until the master votes.
func TestInspect_voteOfAMasterThatWaits_isNotCounted(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	lease := take(t, openClient(t, list, redlock.WithClientName("billing/pod-7")), "a")
	must(t, direct(t, servers[2].URL()).FlushAll(t.Context()).Err())
	must(t, lease.Extend(t.Context())) // as a renewal does, some seconds later
	eventually(t, "its vote was put back", func() bool {
		_, stdout, _ := cli(t, "inspect", "a", "--nodes", list)
		return strings.Contains(stdout, "* not counted: this master waits until it may vote")
	})
	wantSaid(t, expectCode(t, exitOK, "inspect", "a", "--nodes", list), "by billing/pod-7, with 2 of 3 votes")
}

func TestInspect_leader_announcementAndTerm(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := candidate(t, list, "--value", "http://me", "--owner", "host/1", "--", "sh", "-c", reports)
	term := p.number()
	_, stdout, _ := cli(t, "inspect", "a", "--json", "--nodes", list)
	var s lockJSON
	must(t, json.Unmarshal([]byte(stdout), &s))
	if len(s.Holders) != 1 || s.Holders[0].Token != int64(term) || s.Holders[0].Value != "http://me" || s.Holders[0].Since == nil || s.Holders[0].Owner != "host/1" {
		t.Errorf("%s", stdout)
	}
	wantSaid(t, hideIDs(expectCode(t, exitOK, "inspect", "a", "--nodes", list)), `leads since MOMENT, token COUNTER, announces "http://me"`)
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.wantCode(5)
}

// What does not tell has exit code 3, and says why.
func TestInspect_mastersAway(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	take(t, openClient(t, list), "a")
	must(t, servers[2].Kill())
	wantSaid(t, expectCode(t, exitOK, "inspect", "a", "--nodes", list), "with 2 of 3 votes", "does not answer", "node: master unreachable")
	expectCode(t, exitOK, "list", "--nodes", list)
	must(t, servers[1].Kill())
	said := expectCode(t, exitMasters, "inspect", "a", "--nodes", list)
	wantSaid(t, said, "redlock: no quorum of masters answered")
	if strings.Contains(said, "redlock: redlock:") {
		t.Error(said)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	if said := expectCode(t, exitOK, "list", "--nodes", list); said != "no lock is held" {
		t.Errorf("%q", said)
	}
	c := openClient(t, list, redlock.WithClientName("pod-7"))
	for _, name := range []string{"jobs/b", "jobs/a", "with space"} {
		take(t, c, name)
	}
	must(t, take(t, c, "jobs/free").Unlock(t.Context()))
	says(t, `lock left wait holder jobs/a TIME 0 pod-7 jobs/b TIME 0 pod-7 "with space" TIME 0 pod-7`, "list", "--nodes", list)
	code, stdout, _ := cli(t, "list", "jobs/", "--json", "--nodes", list)
	var s listJSON
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitOK || len(s.Locks) != 2 || s.Locks[0].Name != "jobs/a" || s.Locks[1].Holders[0].Owner != "pod-7" {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	if said := expectCode(t, exitOK, "list", "none/", "--nodes", list); said != `no lock is held whose name begins with "none/"` {
		t.Errorf("%q", said)
	}
	if code, stdout, _ := cli(t, "list", "none/", "--json", "--nodes", list); code != exitOK || !strings.Contains(stdout, `"locks": []`) {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

// Nobody works under a lock that rests.
func TestList_rests_saysSo(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	startRun(t, list, "nightly", "--every", "40s", "--owner", "pod-7", "--", "true").wantCode(exitOK)
	says(t, "lock left wait holder nightly TIME 0 rests after pod-7", "list", "--nodes", list)
}

// Masters that have forgotten their locks do not say that none is held. While they are being changed, that is why.
func TestList_mastersDoNotVote_saysThatTheyDoNotTell(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	take(t, openClient(t, list), "a") // its program recovers them
	for i, server := range servers {
		must(t, direct(t, server.URL()).FlushAll(t.Context()).Err())
		if i == 0 {
			expectCode(t, exitOK, "list", "--nodes", list)
		}
	}
	eventually(t, "they recover", func() bool { code, _, _ := cli(t, "status", "--nodes", list); return code == exitTooFewVote })
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"list", "none/"}, {"inspect", "b"}} {
		if code, stdout, stderr := cli(t, append(args, "--nodes", list)...); code != exitMasters || strings.Contains(stdout+stderr, "no lock is held") {
			t.Errorf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
}

func TestLocks_changeUnfinished_ownCode(t *testing.T) {
	t.Parallel()
	stall.Try(t, time.Second, func(t testing.TB) {
		servers, list := voting(t)
		a := &advised{t: t, servers: servers, urls: strings.Split(list, ","), ttl: redlock.DefaultMaxTTL}
		a.interrupt("all locks are stopped", "reconfigure", "--from", list, "--to-max-ttl", "1m")
		for _, args := range [][]string{{"list"}, {"list", "--json"}, {"inspect", "b"}, {"force-unlock", "b", "--yes", "--holder", "x:1"}} {
			code, stdout, stderr := cli(t, append(args, "--nodes", list)...)
			if said := stdout + stderr; code != exitChanging || strings.Contains(said, "no lock is held") || !strings.Contains(said, "change to 3 masters") {
				t.Errorf("%v: exit code %d: %s", args, code, said)
			}
		}
	})
}

// So it is for the list that a change leads to, whose masters have had no locks yet.
func TestLocks_changePrepared_newListHasThatCodeToo(t *testing.T) {
	t.Parallel()
	stall.Try(t, time.Second, func(t testing.TB) {
		servers, list := voting(t)
		to := strings.Join(startURLs(t, 3), ",")
		a := &advised{t: t, servers: servers, urls: strings.Split(list, ","), ttl: redlock.DefaultMaxTTL}
		a.interrupt("all locks are stopped", "reconfigure", "--from", list, "--to", to)
		for _, args := range [][]string{{"status"}, {"list"}, {"list", "--json"}, {"inspect", "b"}, {"force-unlock", "b", "--yes", "--holder", "x:1"}} {
			code, stdout, stderr := cli(t, append(args, "--nodes", to)...)
			said := strings.Join(strings.Fields(stdout+stderr), " ")
			if code != exitChanging || strings.Contains(said, "forgotten") || !strings.Contains(said, "prepared for a change to this list") {
				t.Errorf("%v: exit code %d: %s", args, code, said)
			}
		}
	})
}

// The locks of a namespace are seen with --namespace only.
func TestList_namespace_itsLocksOnly(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	expectCode(t, exitOK, "init", never, "--namespace", "team-a", "--nodes", list)
	lease := take(t, openClient(t, list, redlock.WithNamespace("team-a"), redlock.WithClientName("pod-7")), "a")
	says(t, "no lock is held", "list", "--nodes", list)
	wantSaid(t, expectCode(t, exitOK, "inspect", "a", "--nodes", list), "free")
	says(t, "lock left wait holder a TIME 0 pod-7", "list", "--namespace", "team-a", "--nodes", list)
	startRun(t, list, "a", "-n", "--", "true").wantCode(0)
	startRun(t, list, "a", "-n", "--namespace", "team-a", "--", "true").wantCode(exitHeld)
	expectCode(t, exitRefused, "force-unlock", "a", "--yes", "--holder", lease.Holder(), "--nodes", list)
	expectCode(t, exitOK, "force-unlock", "a", "--yes", "--holder", lease.Holder(), "--namespace", "team-a", "--nodes", list)
}

// A script names the holder that it has seen. The next holder is not hit.
func TestForceUnlock_yes_onlyTheHolderThatIsNamed(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	stuck := startRun(t, list, "a", "--ttl", "4s", "--", "sh", "-c", "echo started; "+restless)
	stuck.line()
	_, stdout, _ := cli(t, "inspect", "a", "--json", "--nodes", list)
	var s lockJSON
	must(t, json.Unmarshal([]byte(stdout), &s))
	if len(s.Holders) == 0 {
		t.Fatalf("nobody has it: %s", stdout)
	}
	id := s.Holders[0].ID
	wantSaid(t, expectCode(t, exitOK, "force-unlock", "a", "--yes", "--holder", id, "--nodes", list), said.TakenAway.With(`"a"`, s.Holders[0].Owner))
	next := take(t, openClient(t, list), "a")
	stuck.wantCode(exitLost)
	code, stdout, stderr := cli(t, "force-unlock", "a", "--yes", "--json", "--holder", id, "--nodes", list)
	var f forcedJSON
	if err := json.Unmarshal([]byte(stdout), &f); err != nil || code != exitRefused || f.ExitCode != code || f.Forced || f.Kind != "refused" || !strings.Contains(f.Error, "not the holder") || !strings.Contains(stderr, "not the holder") {
		t.Errorf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	must(t, next.Extend(t.Context()))
	code, stdout, _ = cli(t, "force-unlock", "a", "--yes", "--json", "--holder", next.Holder(), "--nodes", list)
	must(t, json.Unmarshal([]byte(stdout), &f))
	if code != exitOK || !f.Forced || f.Holder != next.Holder() {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

func TestForceUnlock_terminal_asks(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	lease := take(t, openClient(t, list, redlock.WithClientName("pod-7")), "a")
	for answer, code := range map[string]int{"\n": exitRefused, "no\n": exitRefused, "\x04": exitRefused, ctrlC: 130} {
		x := onTerminal(t, program(t, "force-unlock", "a", "--nodes", list).onNothing())
		x.expect("held     by pod-7, with ")
		x.expect("breaks   the holder is not told")
		x.expect(`Take "a" away from it? [y/N] `)
		x.send(answer)
		if code == exitRefused {
			x.expect(said.NothingDone.Text)
		} else {
			x.expect("redlock: " + said.Interrupted.Text)
		}
		x.wantCode(code)
	}
	must(t, lease.Extend(t.Context()))
	x := onTerminal(t, program(t, "force-unlock", "a", "--nodes", list).onNothing())
	x.expect("[y/N] ")
	x.send("y\n")
	x.expect(`"a" is taken away from pod-7`)
	x.wantCode(exitOK)
	x = onTerminal(t, program(t, "force-unlock", "a", "--holder", lease.Holder(), "--nodes", list).onNothing())
	wantSaid(t, strings.Join(strings.Fields(x.expect("[y/N] ")), " "), "not held by "+lease.Holder(), `"a" is free`)
	x.send("n\n")
	x.wantCode(exitRefused)
	x = onTerminal(t, program(t, "force-unlock", "a", "--nodes", list).onNothing())
	x.expect(said.LockFree.With(`"a"`))
	x.wantCode(exitRefused)
	if err := lease.Extend(t.Context()); err == nil {
		t.Error("it still has the lock")
	}
}

// Nobody works under a lock that rests: what ends is its minimum hold.
func TestForceUnlock_resting_saysThatThePeriodEnds(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	lease, err := openClient(t, list, redlock.WithClientName("pod-7")).Mutex("a", redlock.WithMinHold(time.Minute)).Lock(t.Context())
	must(t, err)
	must(t, lease.Unlock(t.Context()))
	x := onTerminal(t, program(t, "force-unlock", "a", "--nodes", list).onNothing())
	asks := strings.Join(strings.Fields(x.expect("[y/N] ")), " ")
	wantSaid(t, asks, "rests after pod-7, on ", "breaks the period, or the minimum hold, ends: the job may run again at once.")
	if strings.Contains(asks, "may work on") || strings.Contains(asks, "held ") {
		t.Errorf("somebody works under it: %s", asks)
	}
	x.send("y\n")
	x.expect(`"a" is taken away from pod-7`)
	x.wantCode(exitOK)
	must(t, take(t, openClient(t, list), "a").Unlock(t.Context()))
}

func TestForceUnlock_severalReaders_oneMustBeNamed(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	var readers []*redlock.Lease
	for range 2 {
		lease, err := openClient(t, list).RWMutex("a").RLock(t.Context())
		must(t, err)
		readers = append(readers, lease)
	}
	x := onTerminal(t, program(t, "force-unlock", "a", "--nodes", list).onNothing())
	x.expect(`lock "a" has 2 holders: give one of them as --holder: `)
	x.wantCode(exitUsage)
	expectCode(t, exitOK, "force-unlock", "a", "--yes", "--holder", readers[0].Holder(), "--nodes", list)
	must(t, readers[1].Extend(t.Context()))
}

// A list of other terms, and one that was left, are refused as status refuses them.
func TestLocks_otherList_refused(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 4)
	from, to := strings.Join(nodes[:3], ","), strings.Join(nodes[1:], ",")
	expectCode(t, exitOK, "init", never, "--nodes", from, "--max-ttl", "300ms")
	refused := func(says string, flags ...string) {
		t.Helper()
		for _, words := range [][]string{{"inspect", "a"}, {"list"}, {"force-unlock", "a", "--yes", "--holder", "x:1"}} {
			wantSaid(t, expectCode(t, exitRefused, append(words, flags...)...), says)
		}
	}
	refused("belongs to another epoch", "--nodes", from, "--max-ttl", "20s")
	refused("or change them with redlock reconfigure", "--nodes", from, "--max-ttl", "20s")
	expectCode(t, exitOK, "reconfigure", "--from", from, "--to", to, "--max-ttl", "300ms")
	refused("these masters were left for another list", "--nodes", from, "--max-ttl", "300ms")
	if code := exitCode(lockError(fmt.Errorf("%w: %w", redlock.ErrRefused, &redlock.EpochError{Left: true}))); code != exitRefused {
		t.Errorf("left after the command had opened its client: exit code %d", code)
	}
}

func TestLocks_badInput_usage(t *testing.T) {
	stall.Try(t, time.Second, func(t testing.TB) {
		for _, args := range [][]string{
			{"inspect", "--nodes", dead}, {"inspect", "a", "b", "--nodes", dead}, {"inspect", "a"}, {"list", "a", "b", "--nodes", dead}, {"list"},
			{"force-unlock", "--nodes", dead}, {"force-unlock", "a", "--yes", "--nodes", dead}, {"elect", "a"},
		} {
			began := time.Now()
			if said := expectCode(t, exitUsage, args...); strings.Contains(said, "topsecret") || !strings.Contains(said, "--help") {
				t.Errorf("%v: %s", args, said)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("%v: after %v", args, d)
			}
		}
		p := program(t, "force-unlock", "a", "--nodes", dead).start()
		p.wantCode(exitUsage)
		p.wantStderr("give --yes and --holder ID")
	})
}

// Two states of a lock's key that no client leaves behind, and that somebody must see.
func TestInspect_keyOfOthers_saysWhatItIs(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	for _, server := range servers {
		c := direct(t, server.URL())
		must(t, c.HSet(t.Context(), "stuck", "00000000-0000-8000-8000-000000000000:1", 1).Err())
		must(t, c.Set(t.Context(), "text", "x", 0).Err())
	}
	wantSaid(t, expectCode(t, exitOK, "inspect", "stuck", "--nodes", list), "with 3 of 3 votes, without a TTL: for ever")
	for _, words := range [][]string{{"--no-wait"}, {"--every", "1h"}, {"--wait", "1s"}} {
		p := startRun(t, list, "stuck", append(words, "--", "true")...)
		p.wantCode(exitHeld)
		p.wantStderr(`lock "stuck" is held by another: the key at its name has no TTL and stays for ever; if no program needs it, delete it on each master`)
	}
	if said := expectCode(t, exitMasters, "inspect", "text", "--nodes", list); strings.Contains(said, "does not answer") {
		t.Error(said)
	} else {
		wantSaid(t, said, "masters refuse to tell", "refuses to tell", "WRONGTYPE")
	}
}
