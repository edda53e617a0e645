// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"strings"
)

// nemeses are the names that a Fault may have, in the order of docs/chaos.md.
var nemeses = []string{
	"kill-minority",
	"kill-majority",
	"cut-power",
	"wipe-minority",
	"wipe-majority",
	"stall-disk",
	"freeze-masters",
	"freeze-client",
	"kill-client",
	"partition",
	"reorder",
	"cut-replies",
	"slow-replies",
	"step-clock",
	"step-quorum",
	"skew-clocks",
	"suspend-client",
	"flush-data",
	"delete-lock",
	"fill-memory",
	"change-policy",
	"fail-over",
	"administer",
	"rolling-upgrade",
	"upgrade-server",
	"misconfigure",
	"restore-copy",
	"waiter-storm",
	"three-at-once",
}

// NemesisName returns the name of the nemesis that s names in upper or lower case. If there is none it returns s and false.
func NemesisName(s string) (name string, ok bool) {
	for _, n := range nemeses {
		if strings.EqualFold(s, n) {
			return n, true
		}
	}
	return s, false
}

// Nemeses returns the names of all nemeses, in the order of docs/chaos.md.
func Nemeses() []string { return slices.Clone(nemeses) }

// CompareNemeses compares two names by their places in Nemeses, for slices.SortFunc.
func CompareNemeses(a, b string) int { return slices.Index(nemeses, a) - slices.Index(nemeses, b) }
