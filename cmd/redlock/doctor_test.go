// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// diagnose runs doctor and returns its exit code and all it said, in lines without breaks.
func diagnose(t testing.TB, nodes ...string) (code int, said string) {
	t.Helper()
	code, stdout, stderr := cli(t, "doctor", "--nodes", strings.Join(nodes, ","))
	tidy(t, stdout)
	if strings.Contains(stdout+stderr, "topsecret") {
		t.Error("shows the password")
	}
	return code, strings.Join(strings.Fields(stdout+stderr), " ")
}

func TestDoctor(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	good := startURLs(t, 3)
	evicting := start(t, localredis.Config{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	durable := start(t, localredis.Config{Persistence: localredis.Always})
	mute := start(t, localredis.Config{Persistence: localredis.EverySec, Args: []string{"--rename-command", "CONFIG", ""}})
	shut := start(t, localredis.Config{Args: []string{"--rename-command", "CONFIG", ""}})
	locked := start(t, localredis.Config{Password: "topsecret"})
	_, version, err := localredis.Find()
	must(t, err)
	replica := start(t, localredis.Config{ReplicaOf: strings.TrimPrefix(good[0], "redis://")})
	hiding := quorumtest.Hiding(t, strings.TrimPrefix(durable.URL(), "redis://"), "run_id")
	hidingPolicy := quorumtest.Hiding(t, strings.TrimPrefix(durable.URL(), "redis://"), "maxmemory_policy")
	for name, tc := range map[string]struct {
		nodes []string
		code  int
		want  []string
	}{
		"good masters": {good, 5, []string{
			"master server eviction aof clock state", " " + version + " noeviction off ", " ±", " no record", "needs init: 3 of 3 masters", "if they are new: redlock init --nothing-was-ever-locked --nodes URLS"}},
		"append-only files": {[]string{good[0], durable.URL(), mute.URL()}, 5, []string{"noeviction always ", "noeviction unknown "}},
		"no append-only file, and no right to CONFIG": {[]string{good[0], good[1], shut.URL()}, 5, []string{
			shut.Addr() + " " + version + " noeviction off "}},
		"evicting": {[]string{good[0], good[1], evicting.URL()}, exitRefused, []string{
			"refused " + evicting.Addr(), `"allkeys-lru"; set maxmemory-policy noeviction`}},
		"run_id hidden": {[]string{good[0], good[1], "redis://" + hiding}, exitRefused, []string{
			"refused " + hiding, "INFO lacks a field that the lock needs: run_id", "not a proxy"}},
		"policy hidden": {[]string{good[0], good[1], "redis://" + hidingPolicy}, exitRefused, []string{
			hidingPolicy + " " + version + " unknown ", "refused " + hidingPolicy, "maxmemory_policy"}},
		"replica": {[]string{good[0], good[1], replica.URL()}, exitRefused, []string{
			"refuses", "refused " + replica.Addr(), `role is "slave"; name its master instead`}},
		"password wrong": {[]string{good[0], good[1], "redis://:topsecret2@" + locked.Addr()}, exitRefused, []string{
			"refused " + locked.Addr(), "WRONGPASS", "check user and password"}},
		"password right": {[]string{good[0], good[1], locked.URL()}, 5, []string{"needs init"}},
		"one master twice": {[]string{good[0], good[1], "redis://localhost:" + port(good[1])}, exitRefused, []string{
			"refused 127.0.0.1:" + port(good[1]) + " and localhost:" + port(good[1]) + " are the same master: name it once"}},
		"an even number": {good[:2], exitRefused, []string{"refused ", "2 masters", "--node-count 2"}},
		"one silent":     {[]string{good[0], good[1], dead}, exitNeedsMasters, []string{"down 127.0.0.1:1", "needs masters: 2 of 3 masters (", "127.0.0.1:1 is out of reach (connection refused)"}},
		"two silent": {[]string{good[0], dead, "redis://127.0.0.1:2"}, exitMasters, []string{
			"down 127.0.0.1:1", "no quorum", "is out of reach"}},
	} {
		t.Run(name, func(t *testing.T) {
			stall.Try(t, handshake, func(t testing.TB) {
				code, said := diagnose(t, tc.nodes...)
				if code != tc.code {
					t.Errorf("exit code %d, want %d", code, tc.code)
				}
				for _, want := range tc.want {
					if !strings.Contains(said, want) {
						t.Errorf("no %q in %q", want, said)
					}
				}
			})
		})
	}
	writesNothing(t, good)
	rights := strings.Join(strings.Fields(runbookPage(t, "Rights")), " ")
	wantSaid(t, rights, "`doctor` shows `off` without an append-only file; else how often it is synced, if the user has `+config|get`, and `unknown` without that right")
}

// Status and doctor write keys to try the user's rights, and remove them. The page and their help say so.
func TestDoctor_triesTheRights_leavesNothing(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	m := direct(t, servers[0].URL())
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	key := protocol.Namespace("").Check("", protocol.Plain).Key
	if beginning, _, _ := strings.Cut(string(page), "\n## "); !strings.Contains(beginning, "`"+key+"`") {
		t.Errorf("the page does not begin with %s, a key of that script", key)
	}
	for command, help := range map[string]string{"status": statusHelp, "doctor": doctorHelp} {
		wantSaid(t, help, key)
		before := m.DBSize(t.Context()).Val()
		must(t, m.ConfigResetStat(t.Context()).Err())
		expectCode(t, exitOK, command, "--nodes", list)
		if stats := m.Info(t.Context(), "commandstats").Val(); !strings.Contains(stats, "cmdstat_zadd:") {
			t.Errorf("%s tries no right: take it off the page", command)
		}
		if after := m.DBSize(t.Context()).Val(); after != before {
			t.Errorf("%s: %d keys before, %d after", command, before, after)
		}
	}
}

// A slot of a Redis Cluster, and a master with a name of its own.
func TestDoctor_slotOfACluster_isOneOfTheMasters(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	cl := quorumtest.StartCluster(t, localredis.None, time.Minute)
	tag := cl.Tag(0)
	plain := startURLs(t, 2)
	nodes := []string{plain[0], plain[1] + "?name=m2", cl.URL(tag, 1, 2)}
	list := strings.Join(nodes, ",")
	if code, said := diagnose(t, nodes...); code != 5 || !strings.Contains(said, "m2 ") || !strings.Contains(said, "cluster:"+tag+" ") ||
		!strings.Contains(said, "needs init") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if code, stdout, stderr := cli(t, "init", "--nothing-was-ever-locked", "--nodes", list); code != exitOK || !strings.Contains(stdout, "cluster:"+tag+" ") || strings.Count(stdout, " votes\n") != 3 {
		t.Errorf("init: exit code %d: %s %s", code, stdout, stderr)
	}
	if code, said := diagnose(t, nodes...); code != exitOK || !strings.Contains(said, "all 3 masters vote") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if code, said := diagnose(t, plain[0], nodes[1], "redis://"+cl.Servers[0].Addr()); code != exitRefused || !strings.Contains(said, "redis-cluster://") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// What doctor says of masters that are in use, which it must leave as they are.
func TestDoctor_masterOfARecord_stateAndEpoch(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 4)
	three := nodes[:3]
	quorumtest.Begin(t, three)
	client, err := redlock.Open(t.Context(), three)
	must(t, err)
	must(t, client.Close())
	expect := func(what string, code int, nodes []string, want ...string) {
		t.Helper()
		before := records(t, nodes)
		got, said := diagnose(t, nodes...)
		if got != code {
			t.Errorf("%s: exit code %d, want %d", what, got, code)
		}
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("%s: no %q in %q", what, w, said)
			}
		}
		if after := records(t, nodes); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the records were %v, are now %v", what, before, after)
		}
	}
	expect("in use", exitOK, three, "votes", "all vote: all 3 masters vote")
	expect("another list", exitRefused, append([]string{nodes[3]}, three[:2]...), "no record", "other list",
		"refused 127.0.0.1:", "belongs to another epoch: 3 masters ")

	set(t, three[0], func(rs *membership.RecordState) { rs.Phase, rs.Nonce = membership.Quarantined, 5 })
	expect("one recovers", exitRecovers, three, "waits", "recovering: a quorum votes, so locks work; ", "no program times its wait: a program of this list lets it vote, which takes 30.6s; if none runs: redlock status --wait")
	set(t, three[0], func(rs *membership.RecordState) { rs.Incarnation = "another" })
	expect("one restarted", exitRecovers, three, "restarted", "may have forgotten votes")
	set(t, three[1], func(rs *membership.RecordState) { rs.Incarnation = "another" })
	expect("two restarted", 5, three, "restarted", "needs init: 2 of 3 masters")
	set(t, three[0], func(*membership.RecordState) {})
	set(t, three[1], func(*membership.RecordState) {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = admin.Reconfigure(ctx, admin.List{URLs: three}, admin.List{URLs: nodes[1:]}, func(_ string, left time.Duration) {
		if left > 0 { // all have stopped, and it waits until what they granted is over
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	expect("a change is unfinished", 4, three, "retired", "changing: the masters are being changed to 3 masters", "redlock reconfigure")
	must(t, direct(t, three[2]).HSet(t.Context(), protocol.RecordKey, "state", "rubbish").Err())
	expect("rubbish", exitRefused, three, "refuses", "cannot be read", "delete it")
}

// The line that doctor prints makes a user that doctor, init and status find good.
func TestDoctor_namespace_printsTheLineOfItsUser(t *testing.T) {
	needs.EveryServer(t)
	nodes := startURLs(t, 3)
	_, stdout, _ := cli(t, "doctor", "--namespace", "team-a", "--nodes", strings.Join(nodes, ","))
	_, line, _ := strings.Cut(stdout, "ACL SETUSER ")
	line, _, _ = strings.Cut(line, "\n")
	var limited []string
	for _, n := range nodes {
		words := []any{"acl", "setuser"}
		for _, w := range strings.Fields(line) {
			words = append(words, w)
		}
		must(t, direct(t, n).Do(t.Context(), words...).Err())
		limited = append(limited, strings.Replace(n, "redis://", "redis://team-a:PASSWORD@", 1))
	}
	list := strings.Join(limited, ",")
	if code, _, stderr := cli(t, "init", "--namespace", "team-a", "--nothing-was-ever-locked", "--nodes", list); code != exitOK {
		t.Fatalf("init: exit code %d: %s", code, stderr)
	}
	for _, command := range []string{"doctor", "status"} {
		if code, stdout, stderr := cli(t, command, "--namespace", "team-a", "--nodes", list); code != exitOK {
			t.Errorf("%s: exit code %d: %s %s", command, code, stdout, stderr)
		}
	}
	if code, said := diagnose(t, nodes...); code != 5 || strings.Contains(said, "SETUSER") { // nobody has begun without a namespace
		t.Errorf("exit code %d: %s", code, said)
	}
}

// set makes a master vote, but for what change makes of its record state.
func set(t testing.TB, url string, change func(rs *membership.RecordState)) {
	t.Helper()
	was, err := membership.ParseRecordState(records(t, []string{url})[0]["state"])
	must(t, err)
	info, err := direct(t, url).Info(t.Context()).Result()
	must(t, err)
	rs := membership.RecordState{Epoch: was.Epoch, Incarnation: protocol.ReadIdentity(info, "").Incarnation(), Phase: membership.Voting}
	change(&rs)
	must(t, direct(t, url).HSet(t.Context(), protocol.RecordKey, "state", rs.String()).Err())
}

// records is the node record of each master.
func records(t testing.TB, nodes []string) (all []map[string]string) {
	t.Helper()
	for _, n := range nodes {
		r, err := direct(t, n).HGetAll(t.Context(), protocol.RecordKey).Result()
		must(t, err)
		all = append(all, r)
	}
	return all
}

// writesNothing complains of keys on masters that doctor has seen many times.
func writesNothing(t testing.TB, nodes []string) {
	t.Helper()
	for _, n := range nodes {
		if n, err := direct(t, n).DBSize(t.Context()).Result(); n != 0 || err != nil {
			t.Errorf("%d keys on a master, %v", n, err)
		}
	}
}

func port(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

// Masters that refuse to write do not vote, whatever their records say.
func TestDoctor_masterRefusesWrites(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 3)
	quorumtest.Begin(t, nodes)
	addr := strings.TrimPrefix(nodes[1], "redis://")
	must(t, direct(t, nodes[1]).ConfigSet(t.Context(), "maxmemory", "1").Err())
	code, said := diagnose(t, nodes...)
	for _, want := range []string{"refused " + addr + ": OOM command not allowed", "raise maxmemory", " refuses"} {
		if code != exitRefused || !strings.Contains(said, want) {
			t.Errorf("exit code %d, no %q in %s", code, want, said)
		}
	}
	code, stdout, _ := cli(t, "status", "--nodes", strings.Join(nodes, ","))
	said = strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{addr + " refuses ", "a quorum votes, so locks work; " + addr + " refuses writes: its memory is full (OOM)"} {
		if code != exitRecovers || !strings.Contains(said, want) {
			t.Errorf("exit code %d, no %q in %s", code, want, said)
		}
	}
}

// A master that did not say in time who it is may be any: two of them are not one.
func TestComplain_mastersThatDidNotSayWhoTheyAre_areNotOne(t *testing.T) {
	v := verdict{Masters: []patient{{Name: "a", reached: true}, {Name: "b", reached: true}, {Name: "c", reached: true, runID: "r"}}}
	if bad := v.complain(); bad || len(v.Complaints) > 0 {
		t.Errorf("%+v", v.Complaints)
	}
}
