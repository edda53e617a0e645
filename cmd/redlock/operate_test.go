// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

const never = "--nothing-was-ever-locked"

// expectCode runs a command, and returns all it said, in lines without breaks.
func expectCode(t testing.TB, want int, args ...string) string {
	t.Helper()
	code, stdout, stderr := cli(t, args...)
	tidy(t, stdout)
	said := strings.Join(strings.Fields(stdout+stderr), " ")
	if code != want {
		t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, said)
	}
	return said
}

func wantSaid(t testing.TB, said string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("no %q in %q", w, said)
		}
	}
}

func TestInit_newMasters_voteAndTwiceIsFine(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	for range 2 {
		out := expectCode(t, exitOK, "init", never, "--nodes", list)
		wantSaid(t, out, said.Begun.With("all vote", "30s"))
		if n := strings.Count(out, " votes"); n != len(nodes) {
			t.Errorf("%d masters that vote in %s", n, out)
		}
	}
	before := records(t, nodes)
	wantSaid(t, expectCode(t, exitRefused, "init", "--nodes", list, "--max-ttl", "5s"), "another epoch", "maximum TTL 30s")
	after := records(t, nodes)
	for i := range after { // a note of the clock, which the first commands sent, may arrive late
		delete(before[i], "note")
		delete(after[i], "note")
	}
	if !reflect.DeepEqual(after, before) {
		t.Error("the records have changed")
	}
}

// slowly starts three masters that answer some commands after d.
func slowly(t testing.TB, match faultproxy.Match, d time.Duration) (nodes []string) {
	t.Helper()
	for _, s := range startMasters(t, 3) {
		p, err := faultproxy.Start(s.Addr())
		must(t, err)
		t.Cleanup(func() { must(t, p.Close()) })
		p.SlowReply(match, d)
		nodes = append(nodes, "redis://"+p.Addr())
	}
	return nodes
}

// A packet that is lost while a connection is made costs TCP a second. An operation waits for 2 s for each master.
func TestOperations_mastersAnswerAfterASecond_areNotDown(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	nodes := slowly(t, func(cmd [][]byte) bool { return strings.EqualFold(string(cmd[0]), "hello") }, 1200*time.Millisecond)
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
		wantSaid(t, expectCode(t, exitOK, "init", never, "--nodes", strings.Join(nodes, ",")), said.Begun.With("all vote", "30s"))
		wantSaid(t, expectCode(t, exitOK, "doctor", "--nodes", strings.Join(nodes, ",")), "votes")
	})
}

// Issue 14, 9: masters that were emptied while a lock is held look like new ones. Nothing
// begins them at once without the operator's word.
func TestInit_mastersEmptied_waitsUnlessToldTheWord(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	expectCode(t, exitOK, "init", never, "--nodes", list, "--max-ttl", "1s")
	client, err := redlock.Open(t.Context(), nodes, redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second), redlock.WithOutageTimeout(outage))
	must(t, err)
	defer client.Close()
	_, err = client.Mutex("held").Lock(t.Context())
	must(t, err)
	flush := func() {
		for _, n := range nodes {
			must(t, direct(t, n).FlushAll(t.Context()).Err())
		}
	}
	flush()
	must(t, client.Close())
	flush() // nobody who saw them vote is left, nor what the client wrote between the first time and its end
	wantSaid(t, expectCode(t, exitNeedsInit, "doctor", "--nodes", list, "--max-ttl", "1s"), "no record", "if they were emptied and no other list took their place, wait 1s with: redlock init --nodes URLS --max-ttl 1s")
	start := time.Now()
	wantSaid(t, expectCode(t, exitOK, "init", "--nodes", list, "--max-ttl", "1s"), "no record", "left: ")
	if d := time.Since(start); d < time.Second {
		t.Errorf("it began after %v", d)
	}
}

// Masters of which some vote: those that do not may have forgotten what they granted.
func TestInit_oneRestarted_leftToRecover(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	expectCode(t, exitOK, "init", never, "--nodes", list)
	must(t, direct(t, nodes[2]).Del(t.Context(), protocol.RecordKey).Err())
	wantSaid(t, expectCode(t, exitRecovers, "init", never, "--nodes", list), "recovering: the list has begun", "a quorum votes", "no record")
}

func TestInit_masterSilent_error(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 2)
	said := expectCode(t, exitMasters, "init", never, "--nodes", strings.Join(append(nodes, dead), ","))
	wantSaid(t, said, "127.0.0.1:1 is out of reach (connection refused): start the master, or correct its URL")
	if strings.Contains(said, "topsecret") {
		t.Error("shows the password")
	}
}

// Issue 14, 10: where no client runs, a deploy script recovers the masters.
func TestStatus_noClientRuns_waitRecovers(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	wantSaid(t, expectCode(t, exitNeedsInit, "status", "--nodes", list), "needs init", "redlock init --nodes URLS")
	quick := []string{"--nodes", list, "--max-ttl", "300ms"}
	expectCode(t, exitOK, append([]string{"init", never}, quick...)...)
	wantSaid(t, expectCode(t, exitOK, append([]string{"status"}, quick...)...), "all vote: all 3 masters vote")
	must(t, direct(t, nodes[1]).Del(t.Context(), protocol.RecordKey).Err())
	wantSaid(t, expectCode(t, exitRecovers, append([]string{"status"}, quick...)...), "recovering: a quorum votes", "no record")
	wantSaid(t, expectCode(t, exitOK, append([]string{"status", "--wait"}, quick...)...), "all vote")

	// A master that stays away: the exit code says so when the time is over.
	away := append([]string{"status", "--wait", "--timeout", "200ms"}, "--nodes", nodes[0]+","+nodes[1]+","+dead, "--max-ttl", "300ms")
	wantSaid(t, expectCode(t, exitRefused, away...), "other list")
	must(t, direct(t, nodes[1]).Del(t.Context(), protocol.RecordKey).Err())
	must(t, direct(t, nodes[2]).Del(t.Context(), protocol.RecordKey).Err())
	expectCode(t, exitNeedsInit, append([]string{"status", "--wait"}, quick...)...)
}

// The time of --wait may be over before a master that is silent is given up. What the masters are in is said all the same.
func TestStatus_waitIsShorterThanADial_saysWhatStands(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	servers, list := voting(t)
	must(t, servers[2].Pause())
	wantSaid(t, expectCode(t, exitRecovers, "status", "--wait", "--timeout", "100ms", "--nodes", list), "recovering: a quorum votes")
}

func TestStatus_json(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	expectCode(t, exitOK, "init", never, "--nodes", list)
	must(t, direct(t, nodes[1]).Del(t.Context(), protocol.RecordKey).Err())
	code, stdout, stderr := cli(t, "status", "--json", "--nodes", list)
	var s statusJSON
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitRecovers || stderr != "" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if s.Standing != "recovering" || s.ExitCode != exitRecovers || s.Epoch == "" || len(s.Masters) != 3 || s.Change != nil {
		t.Errorf("%+v", s)
	}
	votes := 0
	for _, m := range s.Masters {
		if m.Votes {
			votes++
		}
	}
	if votes != 2 {
		t.Errorf("%d vote: %+v", votes, s.Masters)
	}
}

// The other commands print the masters and what they did in the same form.
func TestOperate_json(t *testing.T) {
	t.Parallel()
	list := strings.Join(startURLs(t, 3), ",")
	for _, tc := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"init", never, "--max-ttl", "300ms", "--nodes", list}, exitOK, "all vote: the list has begun, with a maximum TTL of 300ms; "},
		{[]string{"cancel", "--max-ttl", "300ms", "--nodes", list}, exitOK, "nothing to give up: "},
		{[]string{"reconfigure", "--max-ttl", "300ms", "--to-max-ttl", "400ms", "--from", list}, exitOK, "done: the new list votes; "},
	} {
		code, stdout, _ := cli(t, append(tc.args, "--json")...)
		var s statusJSON
		must(t, json.Unmarshal([]byte(stdout), &s))
		if code != tc.code || s.ExitCode != code || s.Standing != "all vote" || len(s.Masters) != 3 || !strings.HasPrefix(s.Text, tc.said) {
			t.Errorf("%s: exit code %d: %+v", tc.args[0], code, s)
		}
	}
}

func TestOutput_cannotBeWritten_ownCode(t *testing.T) {
	full := diskFull(t)
	var stderr strings.Builder
	if code := run([]string{"completion", "bash"}, full, &stderr); code != exitOutput || stderr.String() != "redlock: "+said.CannotWrite.With("write /dev/full: no space left on device\n") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	p := program(t, "completion", "bash")
	r, w, err := os.Pipe()
	must(t, err)
	must(t, r.Close())
	p.Cmd.Stdout = w
	must(t, p.Start())
	must(t, w.Close())
	p.wantCode(exitSignal + int(syscall.SIGPIPE))
	if p.stderr.String() != "" {
		t.Errorf("%q", &p.stderr)
	}
}

func TestReconfigure_andCancel(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 5)
	from, to := strings.Join(nodes[:3], ","), strings.Join(nodes[2:], ",")
	expectCode(t, exitOK, "init", never, "--nodes", from, "--max-ttl", "300ms")
	wantSaid(t, expectCode(t, exitOK, "cancel", "--nodes", from, "--max-ttl", "300ms"), said.NoChange.Text)
	wantSaid(t, expectCode(t, exitRefused, "reconfigure", "--from", from, "--max-ttl", "300ms"), "there is nothing to change")
	// Two of the old masters refuse to write when they are to promise. Whether the third has promised goes by who is asked first.
	refuse := func(replicas string) {
		for _, u := range nodes[:2] {
			must(t, direct(t, u).ConfigSet(t.Context(), "min-replicas-to-write", replicas).Err())
		}
	}
	refuse("1")
	eventually(t, "the change has begun", func() bool {
		wantSaid(t, expectCode(t, exitMasters, "reconfigure", "--from", from, "--to", to, "--max-ttl", "300ms"), "refuses writes: its replicas are gone (NOREPLICAS)")
		_, stdout, _ := cli(t, "status", "--json", "--nodes", from, "--max-ttl", "300ms")
		return strings.Contains(stdout, `"change"`)
	})
	refuse("0")
	wantSaid(t, expectCode(t, exitOK, "cancel", "--nodes", from, "--max-ttl", "300ms"), said.GivenUp.Text)
	wantSaid(t, expectCode(t, exitOK, "reconfigure", "--from", from, "--to", to, "--max-ttl", "300ms"), said.NewListVotes.Text)
	expectCode(t, exitOK, "reconfigure", "--from", from, "--to", to, "--max-ttl", "300ms") // called again
	expectCode(t, exitOK, "status", "--nodes", to, "--max-ttl", "300ms")
	wantSaid(t, expectCode(t, exitRefused, "status", "--nodes", from, "--max-ttl", "300ms"), "not this list: these masters were left for another list: 3 masters")
	wantSaid(t, expectCode(t, exitRefused, "init", "--nodes", from, "--max-ttl", "300ms"), "change back")
	wantSaid(t, expectCode(t, exitOK, "reconfigure", "--from", to, "--max-ttl", "300ms", "--to-max-ttl", "2s"), said.NewTermsVote.Text)
	expectCode(t, exitOK, "status", "--nodes", to, "--max-ttl", "2s")
	expectCode(t, exitOK, "reconfigure", "--from", to, "--to", from, "--max-ttl", "2s") // and back
	expectCode(t, exitOK, "status", "--nodes", from, "--max-ttl", "2s")
}

// The URLs of the new list may have passwords, which other users of the machine must not read.
func TestReconfigure_newListInAFile(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 4)
	from := strings.Join(nodes[:3], ",")
	file := filepath.Join(t.TempDir(), "new")
	must(t, os.WriteFile(file, []byte("\ufeff# the new ones\n"+strings.Join(nodes[1:], "\n")+"\n"), 0o600))
	expectCode(t, exitOK, "init", never, "--nodes", from, "--max-ttl", "300ms")
	expectCode(t, exitOK, "reconfigure", "--from", from, "--to-nodes-file", file, "--max-ttl", "300ms")
	expectCode(t, exitOK, "status", "--nodes-file", file, "--max-ttl", "300ms")
	wantSaid(t, expectCode(t, exitUsage, "reconfigure", "--from", from, "--to-nodes-file", file, "--to", from), "--to-nodes-file and --to both name the new masters")
	must(t, os.WriteFile(file, []byte("# bad\n"+dead+"x\n"), 0o600))
	said := expectCode(t, exitUsage, "reconfigure", "--from", from, "--to-nodes-file", file)
	if wantSaid(t, said, file+":2: ", "***@127.0.0.1:1x"); strings.Contains(said, "topsecret") {
		t.Error(said)
	}
	for _, flag := range []string{"--to-nodes-file", "--to-cluster"} {
		wantSaid(t, expectCode(t, exitUsage, "reconfigure", "--from", from, flag, ""), flag, "it is empty")
	}
}

// A variable that is not set does not mean the list of the environment.
func TestMasters_flagThatIsEmpty_usage(t *testing.T) {
	t.Setenv(nodesVar, strings.Join(startURLs(t, 3), ","))
	for _, flag := range []string{"--nodes-file", "--cluster", "--nodes", "--namespace"} {
		wantSaid(t, expectCode(t, exitUsage, "cancel", flag, ""), flag)
	}
}

// Both lists may have one master by two URLs, if both lead to it. The programs of the new list would lock on another server otherwise.
func TestReconfigure_oneNameTwoURLs_oneMasterOrRefused(t *testing.T) {
	t.Parallel()
	servers := startMasters(t, 4)
	with := func(last string) string {
		return strings.Join([]string{servers[0].URL(), servers[1].URL(), last + "?name=c"}, ",")
	}
	from := with(servers[2].URL())
	expectCode(t, exitOK, "init", never, "--nodes", from, "--max-ttl", "300ms")
	for last, want := range map[string]string{
		servers[3].URL():        "master c is one server in the old list and another one in the new list",
		servers[2].URL() + "/1": "master c is database 0 of its server in the old list and database 1 in the new list",
		"redis://127.0.0.1:1":   "another one in the new list, which does not answer",
	} {
		wantSaid(t, expectCode(t, exitRefused, "reconfigure", "--from", from, "--to", with(last), "--max-ttl", "300ms", "--to-max-ttl", "400ms"), want)
	}
	expectCode(t, exitOK, "status", "--nodes", from, "--max-ttl", "300ms")
	same := with(strings.Replace(servers[2].URL(), "127.0.0.1", "localhost", 1))
	expectCode(t, exitOK, "reconfigure", "--from", from, "--to", same, "--max-ttl", "300ms", "--to-max-ttl", "400ms")
	expectCode(t, exitOK, "status", "--nodes", same, "--max-ttl", "400ms")
}

func TestHelp_noEmptyDefaultNoLongLine(t *testing.T) {
	for _, cmd := range append(operations(output{}), locking(output{})...) {
		if _, help, _ := cli(t, cmd.Name(), "--help"); help == "" || strings.Contains(help, "(default )") {
			t.Errorf("%s: %s", cmd.Name(), help)
		}
		for line := range strings.Lines(cmd.Long) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > 80 {
				t.Errorf("%s: %d columns: %s", cmd.Name(), len(line), line)
			}
		}
	}
}

// Zero is a value: it does not mean that the flag was not given.
func TestReconfigure_toNoDrift_isAChange(t *testing.T) {
	t.Parallel()
	list := strings.Join(startURLs(t, 3), ",")
	expectCode(t, exitOK, "init", never, "--nodes", list, "--max-ttl", "300ms")
	expectCode(t, exitOK, "reconfigure", "--from", list, "--max-ttl", "300ms", "--to-drift", "0+0s")
	expectCode(t, exitOK, "status", "--nodes", list, "--max-ttl", "300ms", "--drift", "0+0s")
}

// A command line that is wrong may have a URL in any place: behind the wrong flag, in place of a command, or after a blank too many.
func TestUsage_urlInTheWrongPlace_noPassword(t *testing.T) {
	for _, args := range [][]string{
		{dead}, {"status", "--nodes", dead + ",", dead}, {"status", "--max-ttl", dead}, {"status", "--drift", dead}, {"status", "-n" + dead},
		{"status", "--=" + dead}, {"status", "--json=" + dead}, {"status", "--" + dead}, {"status", "--nodes-file", dead},
		{"status", "--timeout", "redis://h/m?sentinel_password=topsecret"}, {"inspect", "a", dead}, {"list", "a", dead},
		{"inspect", "a", "--node-count", dead}, {"list", "--max-ttl", dead}, {"force-unlock", "a", "--yes=" + dead}, {"version", dead},
		{"run", "a", dead, "--", "true"}, {"run", "a", "--ttl", dead, "--", "true"}, {"elect", "a", "--ttl", dead, "--", "true"}, {"cancel", dead},
	} {
		if said := expectCode(t, exitUsage, args...); strings.Contains(said, "topsecret") || !strings.Contains(said, "--help") {
			t.Errorf("%v: %s", args, said)
		}
	}
	t.Setenv(nodesFileVar, dead)
	if said := expectCode(t, exitUsage, "status"); strings.Contains(said, "topsecret") {
		t.Error(said)
	}
}

func TestOperate_badInput_usage(t *testing.T) {
	if said := expectCode(t, exitUsage, "status", "--timeout", "5s", "--nodes", deadList); !strings.Contains(said, "--timeout 5s: it is for --wait") {
		t.Error(said)
	}
	for _, args := range [][]string{
		{"init"}, {"status"}, {"cancel"}, {"reconfigure"}, {"doctor"},
		{"status", "--nodes", "what://ever"}, {"status", "--nodes", dead, "--max-ttl", "0s"},
		{"status", "--nodes", dead, "--drift", "much"}, {"reconfigure", "--from", dead, "--to", "x"},
		{"status", "--wait", "--timeout", "0s", "--nodes", deadList}, {"status", "--wait", "--timeout", "-1s", "--nodes", deadList},
		{"status", "--drift", "2+2ms", "--nodes", deadList}, {"status", "--drift", "NaN+2ms", "--nodes", deadList}, {"status", "--drift", "0.01+-2ms", "--nodes", deadList},
		{"cancel", "--namespace", "team a", "--nodes", deadList}, {"doctor", "--namespace", dead, "--nodes", deadList}, {"init", "--max-ttl", "10000h", "--nodes", deadList},
		{"inspect", "a", "--max-ttl", "10000h", "--nodes", deadList}, {"reconfigure", "--from", deadList, "--to-drift", "1+0s"},
		{"reconfigure", "--from", deadList, "--to-max-ttl", "10000h"}, {"reconfigure", "--from", deadList, "--to-max-ttl", "0s"},
	} {
		if said := expectCode(t, exitUsage, args...); strings.Contains(said, "topsecret") || !strings.Contains(said, "--help") {
			t.Errorf("%v: %s", args, said)
		}
	}
}

// A list of one kind that is asked for as the other one: what is advised names the flag, and no change of a list that can have none.
func TestFixed_otherValues_namesTheFlags(t *testing.T) {
	t.Parallel()
	nodes := strings.Join(startURLs(t, 3), ",")
	expectCode(t, exitOK, "status", "--wait", "--fixed", "--max-ttl", "300ms", "--nodes", nodes)
	for _, test := range []struct {
		want  string
		words []string
	}{
		{"so give --max-ttl 300ms", []string{"status", "--fixed", "--max-ttl", "9s"}},
		{"so give --max-ttl 300ms --fixed", []string{"status", "--max-ttl", "9s"}},
		{"so give --fixed", []string{"status", "--max-ttl", "300ms"}},
		{"so give --fixed", []string{"doctor", "--max-ttl", "300ms"}},
		{"that list is fixed: its programs begin it, and it is never changed: redlock status --wait --nodes URLS --max-ttl 300ms --fixed", []string{"init", "--max-ttl", "9s"}},
		{"that list is fixed", []string{"cancel", "--max-ttl", "300ms"}},
		{"that list is fixed", []string{"reconfigure", "--max-ttl", "300ms", "--to-max-ttl", "9s"}},
	} {
		flag := "--nodes"
		if test.words[0] == "reconfigure" {
			flag = "--from"
		}
		said := expectCode(t, exitRefused, append(test.words, flag, nodes)...)
		if wantSaid(t, said, test.want); strings.Contains(said, "redlock reconfigure --") || strings.Contains(said, "delete the key") {
			t.Errorf("%v: %s", test.words, said)
		}
	}
	other := strings.Join(startURLs(t, 3), ",")
	expectCode(t, exitOK, "init", never, "--max-ttl", "300ms", "--nodes", other)
	wantSaid(t, expectCode(t, exitRefused, "status", "--fixed", "--max-ttl", "300ms", "--nodes", other), "so leave --fixed out")
}

// Masters that answer, and that cannot be used, are not told as ones that do not answer. A command that needs all of them says so.
func TestInit_oneCannotBeUsed_isNotToldAsNoQuorum(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 3)
	list := func() []string { return []string{"--max-ttl", "300ms", "--nodes", strings.Join(nodes, ",")} }
	expectCode(t, exitOK, append([]string{"init", never}, list()...)...)
	right := nodes[2]
	fails := func(want string, words ...string) {
		t.Helper()
		if said := expectCode(t, exitMasters, words...); !strings.Contains(said, want) || strings.Contains(said, "no quorum") {
			t.Errorf("%s\nhas not %s", said, want)
		}
	}
	nodes[2] = dead
	fails("init: every master is needed: 127.0.0.1:1 is out of reach", append([]string{"init"}, list()...)...)
	fails("nothing has stopped", "reconfigure", "--max-ttl", "300ms", "--from", strings.Join([]string{nodes[0], nodes[1], right}, ","), "--to", strings.Join(nodes, ","))
	nodes[2] = right
	for i := range nodes {
		must(t, direct(t, nodes[i]).ConfigSet(t.Context(), "requirepass", "right").Err())
		nodes[i] = strings.Replace(nodes[i], "redis://", "redis://:wrong@", 1)
	}
	fails("init: every master is needed: 127.0.0.1", append([]string{"init"}, list()...)...)
}

// What is left is told when there is something to tell, and one master is not "all 1 masters".
func TestStatus_oneMaster_inWords(t *testing.T) {
	t.Parallel()
	list := []string{"--node-count", "1", "--max-ttl", "300ms", "--nodes", startURLs(t, 1)[0]}
	expectCode(t, exitOK, append([]string{"init", never}, list...)...)
	wantSaid(t, expectCode(t, exitOK, append([]string{"status"}, list...)...), "all vote: the one master votes")
	for left, want := range map[time.Duration]string{20 * time.Millisecond: "waits", 60 * time.Millisecond: "waits, 100ms left"} {
		if got := whyOf(&admin.MasterStatus{Cause: "waits", Left: left}); got != want {
			t.Errorf("%v: %s", left, got)
		}
	}
}
