// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// Who has no list of URLs is not told to type one.
func TestFit_advisedCommands_nameTheMastersAsTheCallerDoes(t *testing.T) {
	const advice = "redlock init --nodes NEW_URLS, or redlock status --nodes URLS"
	for want, m := range map[string]*masters{
		advice: {},
		"redlock init --cluster NEW_URL, or redlock status --cluster URL":         {cluster: "redis://one"},
		"redlock init --nodes-file NEW_FILE, or redlock status --nodes-file urls": {file: "urls"},
	} {
		if got := m.fit(advice); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
