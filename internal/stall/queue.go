// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// A queue adds up for how long the threads of this process and of its descendants have waited for a processor, as Linux counts it. A
// redis-server that a test started is one of them: it may wait while the test's own process does not. On other systems the sum is 0.
type queue struct {
	ours   map[string]bool          // by process: whether it is this one or a descendant
	waited map[string]time.Duration // by thread, also of those that have ended
	before time.Duration            // what they had waited when the queue was made
}

func newQueue() *queue {
	q := &queue{ours: map[string]bool{strconv.Itoa(os.Getpid()): true}, waited: make(map[string]time.Duration)}
	q.before = q.look()
	return q
}

// look returns the sum so far. A thread that starts and ends between two looks is not in it.
func (q *queue) look() (sum time.Duration) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // parents come before their children
	for _, pid := range names {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		ours, known := q.ours[pid]
		if !known {
			ours = q.ours[parent(pid)]
			q.ours[pid] = ours
		}
		if ours {
			q.lookAt(pid)
		}
	}
	for _, d := range q.waited {
		sum += d
	}
	return sum - q.before
}

// lookAt notes what the threads of a process have waited.
func (q *queue) lookAt(pid string) {
	dir, err := os.Open("/proc/" + pid + "/task")
	if err != nil {
		return // it has ended
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1)
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/" + pid + "/task/" + thread + "/schedstat")
		words := strings.Fields(string(text)) // what it ran, waited, and how often, in nanoseconds
		if err != nil || len(words) < 2 {
			continue
		}
		if waited, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			q.waited[pid+"/"+thread] = time.Duration(waited)
		}
	}
}

// parent returns the parent of a process, or "" if the process has ended.
func parent(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	// pid (name) state parent ...: the name may have spaces and parentheses in it.
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(words) < 2 {
		return ""
	}
	return words[1]
}
