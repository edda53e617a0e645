// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// asUser are the masters as a user has them who has the rights of the docs, but for those in words that begin with "-", and then the other words.
func asUser(t testing.TB, nodes []string, words ...any) (limited []string) {
	t.Helper()
	for _, n := range nodes {
		args := []any{"acl", "setuser", "locker", "reset", "resetchannels", "on", ">topsecret"}
		for _, w := range protocol.Namespace("").ACL() {
			if !slices.Contains(words, any("-"+w[1:])) {
				args = append(args, w)
			}
		}
		for _, w := range words {
			if !strings.HasPrefix(w.(string), "-") {
				args = append(args, w)
			}
		}
		must(t, direct(t, n).Do(t.Context(), args...).Err())
		limited = append(limited, strings.Replace(n, "redis://", "redis://locker:topsecret@", 1))
	}
	return limited
}

// Doctor says of each right of the docs that is missing what it costs: the lock is refused, read locks are, or a waiter hears late. Of all that
// docs/operations.md calls dispensable it says nothing.
func TestDoctor_rightMissing_saysWhatItCosts(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 3)
	quorumtest.Begin(t, nodes)
	for name, tc := range map[string]struct {
		lacks []any
		code  int
		want  string
	}{
		"nothing":                {nil, exitOK, "all vote"},
		"a channel of Redisson":  {[]any{"resetchannels", "&redlock:wake:*"}, exitMasters, "publish on redisson_lock__channel:{redlock:check}"},
		"the channel of wakes":   {[]any{"resetchannels", "&redisson_*"}, exitMasters, "publish on redlock:wake:check"},
		"SUBSCRIBE":              {[]any{"-subscribe"}, exitOK, "a waiter does not hear from this master"},
		"HRANDFIELD":             {[]any{"-hrandfield"}, exitOK, "hrandfield on redlock:check: only read locks need that"},
		"the keys of read locks": {[]any{"resetkeys", "~orders*", "~redlock:*"}, exitOK, "set on {redlock:check}:check:rwlock_timeout:1"},
		"what is dispensable":    {[]any{"-pubsub|numsub", "-client|kill", "-client|setname", "-script|load", "-scan"}, exitOK, "all vote"},
	} {
		code, said := diagnose(t, asUser(t, nodes, tc.lacks...)...)
		warns := tc.code == exitOK && tc.want != "all vote"
		if code != tc.code || !strings.Contains(said, tc.want) || strings.Contains(said, "lacks 127.0.0.1:") != warns {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, tc.code, tc.want, said)
		}
		if warns && (strings.Count(said, "do grant it to the lock's user") != 1 || !strings.Contains(said, "all vote")) {
			t.Errorf("%s: the remedy, once, and that locks work: %s", name, said)
		}
	}
}

// The row of a master, the line about it and the exit code say one thing.
func TestDoctor_rowLineAndExitCode_agree(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	servers, _ := voting(t)
	nodes := []string{servers[0].URL(), servers[1].URL(), servers[2].URL()}
	m := direct(t, nodes[2])
	sentinel := quorumtest.StartSentinel(t, servers[2].Addr())
	for name, tc := range map[string]struct {
		url         string // in place of master 2
		spoil, mend []any  // on master 2
		state, kind string
		code        int
	}{
		"max number of clients": {nodes[2], []any{"config", "set", "maxclients", "1"}, []any{"config", "set", "maxclients", "1000"}, "refuses", refused, exitRefused},
		"policy":                {nodes[2], []any{"config", "set", "maxmemory-policy", "allkeys-lru"}, []any{"config", "set", "maxmemory-policy", "noeviction"}, "refuses", refused, exitRefused},
		"a right":               {nodes[2], []any{"acl", "setuser", "default", "-zrank"}, []any{"acl", "setuser", "default", "+zrank"}, "refuses", refused, exitRefused},
		"one master twice":      {strings.Replace(nodes[1], "127.0.0.1", "localhost", 1) + "?name=" + servers[2].Addr(), nil, nil, "refuses", refused, exitRefused},
		"another master's name": {"redis-sentinel://" + sentinel + "/other?name=" + servers[2].Addr(), nil, nil, "down", "down", exitRecovers},
		"not one that is known": {"redis://" + anotherServer(t, saysAlways("-ERR the moon is full\r\n")) + "?name=" + servers[2].Addr(), nil, nil, "down", "down", exitRecovers},
	} {
		if tc.spoil != nil {
			must(t, m.Do(t.Context(), tc.spoil...).Err())
		}
		code, stdout, _ := cli(t, "doctor", "--json", "--nodes", strings.Join([]string{nodes[0], nodes[1], tc.url}, ","))
		var v verdict
		must(t, json.Unmarshal([]byte(stdout), &v))
		states := map[string]bool{}
		for _, p := range v.Masters {
			states[p.State] = true
		}
		if code != tc.code || !states[tc.state] || states["down"] && tc.state != "down" || len(v.Complaints) == 0 || v.Complaints[0].Kind != tc.kind ||
			strings.Contains(stdout, "unreachable") && tc.kind == refused {
			t.Errorf("%s: exit code %d, want %d, %s and %s: %s", name, code, tc.code, tc.state, tc.kind, stdout)
		}
		if _, said := diagnose(t, nodes[0], nodes[1], tc.url); strings.Contains(said, "do do ") {
			t.Errorf("%s: says do twice: %s", name, said)
		}
		if tc.mend != nil {
			must(t, m.Do(t.Context(), tc.mend...).Err())
		}
	}
}

// Masters of another database than 0 have a / in their names. Every text shows it so, and none of them as records have it.
func TestDoctor_namesAsGiven(t *testing.T) {
	t.Parallel()
	var nodes []string
	for _, n := range startURLs(t, 3) {
		nodes = append(nodes, n+"/1")
	}
	quorumtest.Begin(t, nodes)
	list := strings.Join(nodes, ",")
	must(t, direct(t, nodes[0]).HSet(t.Context(), protocol.RecordKey, "state", "rubbish").Err())
	for _, args := range [][]string{{"doctor"}, {"status"}, {"status", "--json"}, {"init"}} {
		_, stdout, stderr := cli(t, append(args, "--nodes", list)...)
		if said := stdout + stderr; strings.Contains(said, "%2F") || !strings.Contains(said, "rubbish") || !strings.Contains(said, "/1") {
			t.Errorf("%v: %s", args, said)
		}
	}
	if _, said := diagnose(t, nodes[:2]...); strings.Contains(said, "status:") || strings.Contains(said, "bad configuration") {
		t.Errorf("an even number: %s", said)
	}
}
