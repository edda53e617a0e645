// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
	"time"
)

// A program of the user's may print what it likes: a second "ready" is ignored.
func TestListen_readyTwice_ignored(t *testing.T) {
	p := &Process{ready: make(chan struct{}), held: map[string]int{}, took: map[string]time.Time{}}
	p.listen(strings.NewReader("ready\n+a\nready\n-a\n+a\n"))
	<-p.ready
	if p.Granted() != 2 || !p.Holds("a") {
		t.Errorf("granted %d, holds %v", p.Granted(), p.Holds("a"))
	}
}

// A line that is longer than any that means something is none, and what comes behind it counts.
func TestListen_longLine_isSkipped(t *testing.T) {
	for _, n := range []int{longestLine - 1, longestLine, 3 * longestLine} {
		p := &Process{ready: make(chan struct{}), held: map[string]int{}, took: map[string]time.Time{}}
		p.listen(strings.NewReader("ready\n" + strings.Repeat("x", n) + "\n+a\n"))
		if p.Granted() != 1 || !p.Holds("a") {
			t.Errorf("%d bytes: granted %d, holds %v", n, p.Granted(), p.Holds("a"))
		}
	}
}
