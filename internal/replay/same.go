// SPDX-License-Identifier: Apache-2.0

//go:build unix

package replay

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/testbed"
)

// Same runs a seed again until two of five runs agree to the byte, and reports whether two did. first is what its first run wrote. One run may
// differ: if the operating system takes the processor away for more than 10 ms, Go's scheduler lets another goroutine go first (one run
// of a third of a second in 40, beside three busy loops on two cores). So five that were held up for long show nothing, and there are four
// more, twice at the most. A stall.Meter cannot say so: it wakes a goroutine each millisecond, which changes the order too.
func Same(t testing.TB, first []byte, again func() []byte) bool {
	t.Helper()
	for group := 1; ; group++ {
		began, spent := time.Now(), testbed.Own()
		seen := map[string]bool{string(first): true}
		for range 4 {
			b := string(again())
			if seen[b] {
				return true
			}
			seen[b] = true
		}
		// A simulation never waits: what it did not compute it was off its processor.
		held := time.Since(began) - (testbed.Own() - spent)
		if t.Logf("no two of five runs of one seed agree, which were held up for %v", held); held < 50*time.Millisecond || group == 3 {
			return false
		}
	}
}
