// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// granted counts a grant.
func (s *sim) granted(c *simClient, until time.Duration) {
	s.tell("%s holds the lock, token %d, for %v", c.id, c.attempt.Token, until-s.now)
	s.seen.waits = append(s.seen.waits, s.now-c.served.came)
	s.seen.grantsAt, s.seen.lastGrant = append(s.seen.grantsAt, s.now), s.now
	s.seen.byClient[c.index]++
	s.seen.lastBy[c.index] = s.now
	if s.lastUnlock != 0 && c.served.came < s.lastUnlock {
		s.seen.handOffs = append(s.seen.handOffs, s.now-s.lastUnlock)
	}
	s.lastUnlock = 0
	for _, other := range s.clients {
		if other != c && !other.dead && len(other.line) > 0 && other.line[0].came < c.served.came {
			s.seen.inversions++
			break
		}
	}
}

func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func mean(all []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(len(all), 1))
}

// report is the line of a run.
func (s *sim) report() string {
	t := &s.seen
	trips := func(d time.Duration) float64 { return float64(d) / float64(s.trip) }
	n := float64(t.grants * s.masterCount)
	return fmt.Sprintf("%d grants, %.2f%% second trips, hand-off %.2f trips (median %.2f, p99 %.2f, max %.1f), %.2f commands a master (%.2f without beats), wait max %v, %d retries, %d claims, %d inversions, %d lost",
		t.grants, 100*float64(t.second)/float64(max(t.grants, 1)), trips(mean(t.handOffs)), trips(percentile(t.handOffs, 0.5)), trips(percentile(t.handOffs, 0.99)),
		trips(percentile(t.handOffs, 1)), float64(t.executed)/n, float64(t.executed-t.beats)/n, percentile(t.waits, 1).Round(time.Microsecond), t.retries, t.claims, t.inversions, t.lost)
}

// tail is the end of the story.
func (s *sim) tail(n int) string {
	var b strings.Builder
	for _, l := range s.log[max(0, len(s.log)-n):] {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}
