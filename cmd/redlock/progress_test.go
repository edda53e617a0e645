// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
)

// In a log there is a line for each change, whatever the time that is left. See TestTerminal_progress_isOneLine for a terminal.
func TestProgress_noTerminal_aLineForEachChange(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, (&masters{file: "list"}).fit)
	for left := 30; left > 0; left-- {
		p.tell(fmt.Sprintf("masters recover: a votes, b is quarantined, votes in about %d.5s", left), time.Duration(left)*time.Second)
	}
	p.tell("masters recover: a is quarantined, its wait is over", 40*time.Millisecond) // over before it is read
	for ago := range 200 {
		p.tell(fmt.Sprintf("masters recover: a votes, b votes (%v ago): redlock status --nodes URLS", time.Duration(ago)*time.Second), 0)
	}
	p.end()
	if got := out.String(); strings.Count(got, "masters recover") != 2 || !strings.Contains(got, "30s left: ") || !strings.Contains(strings.Join(strings.Fields(got), " "), "--nodes-file list") {
		t.Errorf("%s", got)
	}
	tidy(t, out.String())
}

// A list of 2 or 4 is refused by the commands, as by Open, unless --node-count says it.
func TestNodeCount_evenList_refusedUnlessSaid(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 4)
	for _, n := range []int{2, 4} {
		list := strings.Join(nodes[:n], ",")
		for _, args := range [][]string{{"init", never}, {"status"}, {"status", "--wait"}, {"doctor"}, {"inspect", "x"}} {
			code := exitUsage
			if args[0] == "doctor" { // which says what else is wrong, too
				code = exitRefused
			}
			said := expectCode(t, code, append(args, "--nodes", list)...)
			wantSaid(t, said, fmt.Sprintf("%d masters", n), fmt.Sprintf("--node-count %d takes", n))
		}
	}
	writesNothing(t, nodes)
	list := []string{"--nodes", strings.Join(nodes, ","), "--node-count", "4"}
	expectCode(t, exitOK, append([]string{"init", never}, list...)...)
	expectCode(t, exitOK, append([]string{"status"}, list...)...)
	expectCode(t, exitOK, append([]string{"doctor"}, list...)...)
	wantSaid(t, expectCode(t, exitUsage, "status", "--node-count", "-1", "--nodes", dead), `"--node-count" flag: want a number, 1 or more`)
}

// One master votes, and two wait for init at slightly different times. It ended when the first of them voted, and told to wait
// for the other one "in about 0s".
func TestInit_someWait_allVoteWhenItEnds(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	nodes := startURLs(t, 5)
	list := []string{"--max-ttl", "500ms", "--nodes", strings.Join(nodes, ",")}
	expectCode(t, exitOK, append([]string{"init", never}, list...)...)
	for _, n := range nodes[:3] {
		must(t, direct(t, n).Del(t.Context(), protocol.RecordKey).Err())
	}
	said := expectCode(t, exitOK, append([]string{"init"}, list...)...)
	wantSaid(t, said, "all vote: the list has begun")
	if strings.Contains(said, "in about 0s") || strings.Contains(said, "status --wait") {
		t.Error(said)
	}
}
