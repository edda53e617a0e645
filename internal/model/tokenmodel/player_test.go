// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import "fmt"

// Master is a real master, or a stand-in, that Replay drives: each method executes one script and returns its reply.
// An attempt is a number; the implementation gives each a holder of its own and the same one every time. A method
// returns an error only if there was no reply.
type Master interface {
	// Acquire asks for the vote. If granted, vote is max(counter+1, floor), and the counter now.
	Acquire(attempt int, floor int64) (vote int64, granted bool, err error)
	// Confirm raises the counter to at least token if the attempt still holds the vote, and reports whether it does.
	Confirm(attempt int, token int64) (held bool, err error)
	// Release drops the attempt's vote and reports whether there was one.
	Release(attempt int) (held bool, err error)
	// Vanish drops the vote, whoever holds it, and nothing else: as an expiry does.
	Vanish() error
}

// Amnesiac is a Master that can lose its data, for paths of a Model with Amnesia.
type Amnesiac interface {
	Master
	// Crash drops vote and counter. Until Recover the master must refuse every vote and confirm nothing.
	Crash() error
	// Recover ends the recovery: the master votes again, with this counter.
	Recover(counter int64) error
}

// Earlier is the attempt by which Replay brings a master's counter to the start of the path.
const Earlier = -1

// DivergenceError says that a master did not answer as the model does.
type DivergenceError struct {
	Path Path // up to and with the step in question
	Got  Step // that step with the master's reply in it
}

// Error tells what the master did, then the path as a story.
func (e *DivergenceError) Error() string {
	return fmt.Sprintf("tokenmodel: at the last step the master did this instead: %v\n%s", e.Got, e.Path)
}

// Replay executes the deliveries of a path against masters, one per master of the path, and compares every reply. The
// masters must be fresh: no vote, counter 0. It returns nil, a *DivergenceError for the first reply that differs, or an
// error of a master. The masters are left as they are at that point.
func Replay(p Path, masters []Master) error {
	if len(masters) != len(p.Start) {
		return fmt.Errorf("tokenmodel: %d masters for a path of %d", len(masters), len(p.Start))
	}
	for n, counter := range p.Start {
		if err := prepare(masters[n], counter); err != nil {
			return fmt.Errorf("tokenmodel: bringing master %d to counter %d: %w", n+1, counter, err)
		}
	}
	for i, step := range p.Steps {
		if step.Master < 0 || step.Master >= len(masters) {
			return fmt.Errorf("tokenmodel: step %d, %v: no such master", i+1, step)
		}
		got, err := deliver(step, masters[step.Master])
		if err != nil {
			return fmt.Errorf("tokenmodel: step %d, %v: %w", i+1, step, err)
		}
		if got != step {
			return &DivergenceError{Path: Path{p.Start, p.Steps[:i+1]}, Got: got}
		}
	}
	return nil
}

// prepare has an earlier attempt vote and go. A fresh master needs nothing for counter 0, and cannot vote 0.
func prepare(at Master, counter int64) error {
	if counter == 0 {
		return nil
	}
	vote, granted, err := at.Acquire(Earlier, counter)
	if err != nil {
		return err
	}
	held, err := at.Release(Earlier)
	if err != nil {
		return err
	}
	if vote != counter || !granted || !held {
		return fmt.Errorf("vote %d, granted %t, held at release %t: not a fresh master", vote, granted, held)
	}
	return nil
}

// deliver executes one step at its master and returns the step with the master's reply in place of the model's. Steps
// inside the client come back as they are.
func deliver(step Step, at Master) (got Step, err error) {
	got = step
	switch step.Kind {
	case Acquire:
		got.Value, got.OK, err = at.Acquire(step.Attempt, step.Floor)
		if !got.OK {
			got.Value = 0
		}
	case Confirm:
		got.OK, err = at.Confirm(step.Attempt, step.Value)
	case Release:
		got.OK, err = at.Release(step.Attempt)
	case Vanish:
		err = at.Vanish()
	case Crash, EndQuarantine, Learn:
		err = recoverMaster(step, at)
	}
	return got, err
}

// recoverMaster drives a master's crash and the end of its recovery; what happens between, waiting and reading
// counters, is done by clients.
func recoverMaster(step Step, at Master) error {
	amnesiac, ok := at.(Amnesiac)
	if !ok {
		return fmt.Errorf("%T is not an Amnesiac", at)
	}
	if step.Kind == Crash {
		if err := amnesiac.Crash(); err != nil {
			return err
		}
	}
	if !step.OK {
		return nil
	}
	return amnesiac.Recover(step.Value)
}
