// SPDX-License-Identifier: Apache-2.0

package logline

import (
	"sync"
	"time"
)

// logBurst and logEvery bound the lines of one kind.
const logBurst, logEvery = 10, time.Second

// limit bounds how many lines of one kind are logged: logBurst at once, and then one in logEvery.
// A zero limit is ready.
type limit struct {
	mu   sync.Mutex
	full time.Time // when all logBurst lines are there again
	out  int       // lines that were left out since the last
}

// take says whether a line may be logged now, and how many were left out before it.
func (l *limit) take() (out int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.full.Before(now) {
		l.full = now
	}
	if next := l.full.Add(logEvery); next.Sub(now) <= logBurst*logEvery {
		l.full = next
		out, l.out = l.out, 0
		return out, true
	}
	l.out++
	return 0, false
}
