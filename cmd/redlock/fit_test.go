// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// Who has no list of URLs is not told to type one.
func TestFit_advisedCommands_nameTheMastersAsTheCallerDoes(t *testing.T) {
	const advice = "redlock init --nodes NEW_URLS, or redlock status --nodes URLS"
	list, cluster, file := masters{}, masters{cluster: "redis://one"}, masters{file: "urls"}
	for want, lists := range map[string][2]masters{
		advice: {list, list},
		"redlock init --cluster NEW_URL, or redlock status --cluster URL":    {cluster, cluster},
		"redlock init --nodes-file urls, or redlock status --cluster URL":    {cluster, file},
		"redlock init --cluster NEW_URL, or redlock status --nodes URLS":     {list, cluster},
		"redlock init --nodes NEW_URLS, or redlock status --nodes-file urls": {file, list},
	} {
		err := lists[1].fitNew(&exitError{exitMasters, lists[0].fit(advice)})
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
