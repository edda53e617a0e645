// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// computes is why a test is run without the race detector, which makes it ten times slower.
const computes = "one goroutine that only computes"

// runs is how much is replayed: all short paths of so many steps, and so many random ones. In them everything must
// happen so many times at least.
type runs struct{ short, random, least int }

// check replays paths, and fails at the first step that differs. reset makes the master new.
func check(t *testing.T, at votesmodel.Real, w votesmodel.World, reset func(), n runs) {
	t.Helper()
	if needs.InSoak(t) {
		n.short, n.random = n.short+1, n.random*50
	}
	short := votesmodel.Short(w, n.short)
	seen := map[string]int{}
	for i, path := range short {
		if err := again(w, path, at, reset); err != nil {
			t.Fatalf("short path %d: %v", i, err)
		}
		count(seen, path)
	}
	for seed := range replay.Many(t, n.random) {
		path := votesmodel.Paths(w, seed, 1, 60)[0]
		if err := again(w, path, at, reset); err != nil {
			t.Fatalf("path of seed %d: %v", seed, err)
		}
		count(seen, path)
	}
	t.Logf("%d short paths, %d random ones; in them %v", len(short), n.random, seen)
	if !replay.Listed() {
		return
	}
	// What is never answered is not compared. The paths of the list are the same in each run.
	all := []string{
		"acquire granted", "acquire held", "acquire refused", "release granted", "release absent", "extend granted", "extend refused",
		"confirm granted", "confirm absent", "confirm refused", "queued", "several ops in a call", "hand", "wake", "Redisson",
		"dequeue granted", "dequeue absent", "passed over",
	}
	if !w.Readers { // only plain locks rest, and are handed off
		all = append(all, "adopt granted", "adopt absent", "adopt refused", "put to rest", "rest lifted", "rest over")
	}
	for _, what := range all {
		if seen[what] < n.least {
			t.Errorf("%q happened %d times, want %d", what, seen[what], n.least)
		}
	}
}

// again replays path. The model's time stands still: a path that took long is replayed once more.
func again(w votesmodel.World, path votesmodel.Path, at votesmodel.Real, reset func()) (err error) {
	for range 5 {
		reset()
		began := time.Now()
		if err = votesmodel.Replay(w, path, at); err == nil || time.Since(began) < 500*time.Millisecond {
			return err
		}
	}
	return err
}

// count counts what happens in a path.
func count(seen map[string]int, path votesmodel.Path) {
	rests := false
	for i, s := range path {
		seen["steps"]++
		_, rest := s.Keys[protocol.NewLock(lockName, protocol.Plain).Rest]
		switch {
		case rest && !rests:
			seen["put to rest"]++
		case !rest && rests && s.Event == votesmodel.Called && s.Call.Ops[0].Lift != "":
			seen["rest lifted"]++
		case !rest && rests && s.Event == votesmodel.Called:
			seen["rest over"]++
		}
		rests = rest
		if i > 0 && len(s.Call.Ops) > 0 {
			seen["passed over"] += passedOver(path[i-1].Keys, s)
		}
		if len(s.Call.Ops) > 1 {
			seen["several ops in a call"]++
		}
		for i, r := range s.Replies {
			seen[fmt.Sprint(s.Call.Ops[i].Kind, " ", r.Outcome)]++
			if r.Ticket != 0 {
				seen["queued"]++
			}
		}
		for _, m := range s.Said {
			_, hand := protocol.ParseHand(m.Text)
			_, place := protocol.ParseWake(m.Text)
			switch {
			case hand:
				seen["hand"]++
			case place != "":
				seen["wake"]++
			default:
				seen["Redisson"]++
			}
		}
	}
}

// passedOver is how many places of living clients step s took out of the queue without an op or a vote for their holder: their
// clients hear no messages.
func passedOver(before votesmodel.Keys, s votesmodel.Step) (n int) {
	queue := protocol.NewLock(lockName, protocol.Plain).Queue
	for _, item := range before[queue].Items {
		member, _, _ := strings.Cut(item, "@")
		field, _ := protocol.ParsePlace(member)
		_, lives := s.Keys[votesmodel.SignOfLife(member[:36])]
		about := slices.ContainsFunc(s.Call.Ops, func(op protocol.Request) bool {
			return op.Place == member || op.Lock != nil && op.Lock.Field(op.Holder) == field
		})
		handed := slices.ContainsFunc(s.Said, func(m votesmodel.Message) bool { return strings.Contains(m.Text, "\x00"+field+"\x00") })
		if lives && !about && !handed && !slices.Contains(s.Keys[queue].Items, item) {
			n++
		}
	}
	return n
}
