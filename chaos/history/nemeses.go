// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"strings"
)

// nemeses are the names that a Fault may have, in the order of docs/chaos.md. Before they had names they had numbers, which are accepted
// wherever a name is read: on the command line and in older histories.
var nemeses = []struct{ name, number string }{
	{"kill-minority", "N1"},
	{"kill-majority", "N2"},
	{"cut-power", "N3"},
	{"wipe-minority", "N4"},
	{"wipe-majority", "N5"},
	{"stall-disk", "N6"},
	{"freeze-masters", "N7"},
	{"freeze-client", "N8"},
	{"kill-client", "kill-client"}, // never had a number
	{"partition", "N9"},
	{"reorder", "N10"},
	{"cut-replies", "N11"},
	{"slow-replies", "N12"},
	{"step-clock", "N13"},
	{"step-quorum", "N14"},
	{"skew-clocks", "N15"},
	{"suspend-client", "N16"},
	{"flush-data", "N17"},
	{"delete-lock", "N17-del"}, // older histories have N17 for both
	{"fill-memory", "N18"},
	{"change-policy", "change-policy"}, // never had a number
	{"fail-over", "N19"},
	{"administer", "N20"},
	{"rolling-upgrade", "N21"},
	{"upgrade-server", "upgrade-server"}, // never had a number
	{"misconfigure", "N22"},
	{"restore-copy", "N23"},
	{"waiter-storm", "N24"},
	{"three-at-once", "N25"},
}

// NemesisName returns the name of the nemesis that s names or numbers, in upper or lower case. If there is none it returns s and false.
func NemesisName(s string) (name string, ok bool) {
	for _, n := range nemeses {
		if strings.EqualFold(s, n.name) || strings.EqualFold(s, n.number) {
			return n.name, true
		}
	}
	return s, false
}

// Nemeses returns the names of all nemeses, in the order of docs/chaos.md.
func Nemeses() []string {
	names := make([]string, len(nemeses))
	for i, n := range nemeses {
		names[i] = n.name
	}
	return names
}

// CompareNemeses compares two names by their places in Nemeses, for slices.SortFunc.
func CompareNemeses(a, b string) int {
	all := Nemeses()
	return slices.Index(all, a) - slices.Index(all, b)
}
