// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// rowOf is the row of an exit code in the table of a section.
func rowOf(t *testing.T, section string, code int) string {
	t.Helper()
	_, row, found := strings.Cut(section, fmt.Sprintf("\n| %d | ", code))
	if !found {
		t.Fatalf("no row for %d", code)
	}
	row, _, _ = strings.Cut(row, "\n")
	return row
}

// Masters that answer and cannot be used: each command ends with the code whose row on the pages says so.
func TestExitCodes_mastersThatCannotBeUsed_asThePagesSay(t *testing.T) {
	t.Parallel()
	ctx, servers := t.Context(), startMasters(t, 3)
	list := strings.Join([]string{servers[0].URL(), servers[1].URL(), servers[2].URL()}, ",")
	page := runbookPage(t, "Exit codes")
	commands, err := os.ReadFile("../../docs/command.md")
	must(t, err)
	_, ofRun, _ := strings.Cut(string(commands), "\n### Exit codes of run\n")
	expect := func(code int, says []string, args ...string) {
		t.Helper()
		expectCode(t, code, append(args, "--nodes", list)...)
		wantSaid(t, rowOf(t, page, code), says...)
	}

	second, third := direct(t, servers[1].URL()), direct(t, servers[2].URL())
	must(t, third.ConfigSet(ctx, "maxmemory", "1").Err())
	expect(exitMasters, []string{"Of `init` also", "the list has to begin, and one takes no writes"}, "init", never)
	must(t, third.ConfigSet(ctx, "maxmemory", "0").Err())
	expectCode(t, exitOK, "init", never, "--nodes", list)

	for _, full := range []*redis.Client{second, third} {
		must(t, full.ConfigSet(ctx, "maxmemory", "1").Err())
	}
	for _, words := range [][]string{{"init"}, {"status"}} { // the list has begun, so init has nothing to write
		expect(exitTooFewVote, []string{"vote, or take writes"}, words...)
	}
	for _, full := range []*redis.Client{second, third} {
		must(t, full.ConfigSet(ctx, "maxmemory", "0").Err())
	}
	eventually(t, "all vote", func() bool { code, _, _ := cli(t, "status", "--nodes", list); return code == exitOK })

	must(t, third.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	expect(exitRecovers, []string{"of `status`", "cannot be used"}, "status")
	for _, words := range [][]string{{"status", "--wait"}, {"init"}, {"doctor"}} {
		expect(exitRefused, []string{"`doctor`, `init` and `status --wait`", "evicts"}, words...)
	}

	must(t, second.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	p := startRun(t, list, "x", "--", "true")
	p.wantCode(exitUsage)
	p.wantStderr("maxmemory-policy")
	wantSaid(t, rowOf(t, ofRun, exitUsage), "cannot be used", "eviction")
	for _, words := range [][]string{{"inspect", "x"}, {"list"}} {
		expectCode(t, exitRefused, append(words, "--nodes", list)...)
	}

	must(t, second.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	must(t, servers[2].Kill())
	expect(exitMasters, []string{"one master does not answer"}, "init")
}
