// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// Who has no list of URLs is not told to type one.
func TestFit_advisedCommands_nameTheMastersAsTheCallerDoes(t *testing.T) {
	const advice = "redlock init --nodes NEW_URLS, or redlock status --nodes URLS"
	file2 := masters{file: "urls"}
	if got := file2.fit("redlock reconfigure --from URLS --to URLS"); got != "redlock reconfigure --nodes-file OLD_FILE --to-nodes-file NEW_FILE" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"redlock cancel --nodes OLD_URLS": "redlock cancel --nodes-file OLD_FILE",
		"redlock reconfigure --from URLS": "redlock reconfigure --nodes-file urls",
	} {
		if got := file2.fit(text); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	list, cluster, file := masters{}, masters{cluster: "redis://one"}, masters{file: "urls"}
	for want, lists := range map[string][2]masters{
		advice: {list, list},
		"redlock init --cluster NEW_URL, or redlock status --cluster URL":    {cluster, cluster},
		"redlock init --nodes-file urls, or redlock status --cluster URL":    {cluster, file},
		"redlock init --cluster NEW_URL, or redlock status --nodes URLS":     {list, cluster},
		"redlock init --nodes NEW_URLS, or redlock status --nodes-file urls": {file, list},
	} {
		change := reconfigure{from: lists[0], to: lists[1]}
		if got := change.fit(advice); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A shell reads a word as it was.
func TestWord_anyText_oneWordOfAShell(t *testing.T) {
	needs.Program(t, "sh")
	for _, s := range []string{"urls", "/etc/redlock/$prod/masters", "/srv/my masters", "it's", "`id`", `a\b"c`, "masters{a,b}", "fit_test.[g]o", "!x", "é"} {
		out, err := exec.Command("sh", "-c", "printf %s "+word(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%s was %q, is %q: %v", word(s), s, out, err)
		}
	}
}
