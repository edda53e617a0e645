// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"regexp"
	"strings"
)

// InFlags is what was said of masters with another maximum TTL or drift, in words of flags and commands.
func InFlags(said string) string {
	said = strings.ReplaceAll(said, "give all clients the same list, maximum TTL and drift, or change them with admin.Reconfigure",
		"give the same list and --max-ttl, or move the list with redlock reconfigure")
	if drifts := drift.FindAllString(said, -1); len(drifts) > 1 && drifts[0] != drifts[1] {
		said += "; redlock-bench has no --drift: it measures lists of the default drift"
	}
	return said
}

// drift matches that of a list: theirs is named first, and then ours.
var drift = regexp.MustCompile(`drift [0-9.]+ \+ [0-9a-zµ.]+`)
