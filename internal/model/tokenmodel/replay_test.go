// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/replay"
)

// bug is one way to get a master's scripts wrong.
type bug string

const (
	ignoresFloor        bug = "ignores the floor"
	addsToFloor         bug = "adds one to the floor"
	repeatsCounter      bug = "votes the counter without raising it"
	keepsVote           bug = "does not store the vote in the counter"
	overwritesHolder    bug = "votes while the lock is held"
	confirmsAnyone      bug = "confirms without looking at the holder"
	confirmsAnyHolder   bug = "confirms whenever the lock is held"
	confirmsOnly        bug = "confirms without raising the counter"
	releasesAnyone      bug = "releases whoever holds the lock"
	releasesCounter     bug = "loses the counter with the lock"
	votesInRecovery     bug = "votes while recovering"
	recoversWithoutRead bug = "recovers without the counters it was told"
)

// reference is a master in memory, written from the words of the scheme and not from the model.
type reference struct {
	bug        bug
	counter    int64
	held       bool
	holder     int
	recovering bool
}

func (r *reference) Acquire(attempt int, floor int64) (int64, bool, error) {
	if r.held && r.bug != overwritesHolder || r.recovering && r.bug != votesInRecovery {
		return 77, false, nil // what a refusal says is not a vote
	}
	vote := r.counter + 1
	switch {
	case r.bug == repeatsCounter:
		vote = r.counter
	case r.bug == addsToFloor && floor > r.counter:
		vote = floor + 1
	case r.bug != ignoresFloor && floor > vote:
		vote = floor
	}
	r.held, r.holder = true, attempt
	if r.bug != keepsVote {
		r.counter = vote
	}
	return vote, true, nil
}

func (r *reference) Confirm(attempt int, token int64) (bool, error) {
	mine := r.held && r.holder == attempt || r.bug == confirmsAnyone || r.held && r.bug == confirmsAnyHolder
	if mine && r.bug != confirmsOnly {
		r.counter = max(r.counter, token)
	}
	return mine, nil
}

func (r *reference) Release(attempt int) (bool, error) {
	if !r.held || r.holder != attempt && r.bug != releasesAnyone {
		return false, nil
	}
	r.held = false
	if r.bug == releasesCounter {
		r.counter = 0
	}
	return true, nil
}

func (r *reference) Vanish() error { r.held = false; return nil }

func (r *reference) Crash() error {
	*r = reference{bug: r.bug, recovering: true}
	return nil
}

func (r *reference) Recover(counter int64) error {
	r.recovering = false
	if r.bug != recoversWithoutRead {
		r.counter = counter
	}
	return nil
}

func references(n int, with bug) []Master {
	masters := make([]Master, n)
	for i := range masters {
		masters[i] = &reference{bug: with}
	}
	return masters
}

// driven are the sound models whose paths are replayed.
var driven = map[string]Model{
	"clocks right": five,
	"votes vanish": anyClock(five),
	"amnesia":      with(five, func(m *Model) { m.Amnesia = 2 }),
}

func TestReplay_referenceMaster_agrees(t *testing.T) {
	for name, m := range driven {
		t.Run(name, func(t *testing.T) {
			replies := map[Step]int{}
			for seed := range replay.Many(t, 1000) {
				paths, err := Paths(m, seed, 1)
				if err != nil {
					t.Fatal(err)
				}
				if err := Replay(paths[0], references(m.Masters, "")); err != nil {
					t.Fatal(err)
				}
				for _, step := range paths[0].Steps {
					replies[Step{Kind: step.Kind, OK: step.OK}]++
				}
			}
			if !replay.Listed() {
				return
			}
			// Every kind of delivery must have been answered both ways, or the agreement means little. The paths of the list are the same in each run.
			for _, kind := range []Kind{Acquire, Confirm, Release} {
				for _, ok := range []bool{false, true} {
					if replies[Step{Kind: kind, OK: ok}] < 50 {
						t.Errorf("kind %d was answered %t only %d times", kind, ok, replies[Step{Kind: kind, OK: ok}])
					}
				}
			}
		})
	}
}

func TestReplay_brokenMaster_diverges(t *testing.T) {
	for _, b := range []bug{
		ignoresFloor, addsToFloor, repeatsCounter, keepsVote, overwritesHolder, confirmsAnyone, confirmsAnyHolder, confirmsOnly,
		releasesAnyone, releasesCounter, votesInRecovery, recoversWithoutRead,
	} {
		var found *DivergenceError
		for _, name := range []string{"clocks right", "votes vanish", "amnesia"} {
			paths, err := Paths(with(driven[name], func(m *Model) { m.Starts = [][]int64{{0, 0, 0, 0, 0}, {0, 0, 1, 2, 3}} }), 1, 100)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(paths) && found == nil; i++ {
				err := Replay(paths[i], references(five.Masters, b))
				if errors.As(err, &found) && len(found.Path.Steps) > 0 {
					t.Logf("%q: %s, path %d, step %d", b, name, i, len(found.Path.Steps))
				}
			}
		}
		if found == nil {
			t.Errorf("a master that %s agrees with the model", b)
		} else if !strings.Contains(found.Error(), found.Got.String()) {
			t.Errorf("%v does not tell what the master did", found)
		}
	}
}

// TestReplay_counterExamples runs the published schedules against sound masters: the write-back that makes them work is
// refused where the vote is not held.
func TestReplay_counterExamples(t *testing.T) {
	for name, test := range map[string]struct {
		path    Path
		refused int
	}{"CE-1": {ce1, 10}, "CE-2": {ce2, 7}} {
		var diverged *DivergenceError
		err := Replay(test.path, references(len(test.path.Start), ""))
		if !errors.As(err, &diverged) || len(diverged.Path.Steps) != test.refused+1 || diverged.Got.OK {
			t.Errorf("%s: %v, want the write-back of step %d refused", name, err, test.refused+1)
		}
	}
}

// deaf is a Master that is no Amnesiac and whose releases do nothing, or fail.
type deaf struct {
	Master
	err error
}

func (d deaf) Release(int) (bool, error) { return false, d.err }

func TestReplay_badMasters_reported(t *testing.T) {
	broken := errors.New("connection lost")
	release := []Step{{Kind: Release, Attempt: 0, Master: 0}}
	tests := []struct {
		name   string
		path   Path
		master Master
		want   string
	}{
		{"one master short", Path{Start: []int64{0, 0}}, &reference{}, "1 masters for a path of 2"},
		{"unknown master", Path{[]int64{0}, []Step{{Kind: Vanish, Master: 1}}}, &reference{}, "no such master"},
		{"used master", Path{Start: []int64{2}}, &reference{counter: 5}, "not a fresh master"},
		{"lock kept at the start", Path{Start: []int64{2}}, deaf{Master: &reference{}}, "not a fresh master"},
		{"no reply", Path{[]int64{0}, release}, deaf{&reference{}, broken}, "connection lost"},
		{"no reply at the start", Path{[]int64{1}, release}, deaf{&reference{}, broken}, "connection lost"},
		{"no amnesiac", Path{[]int64{0}, []Step{{Kind: Crash}}}, deaf{Master: &reference{}}, "not an Amnesiac"},
	}
	for _, test := range tests {
		if err := Replay(test.path, []Master{test.master}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
}
