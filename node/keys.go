// SPDX-License-Identifier: Apache-2.0

package node

import "strings"

// redissonName is how Redisson derives a companion's name from a lock's: a name
// that brings its own braces keeps them, any other is wrapped, so that the
// companion lands in the lock's cluster slot. Redisson asks for an opening
// brace only, and so must we.
func redissonName(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}
