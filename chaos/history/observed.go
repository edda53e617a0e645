// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"errors"
	"time"
)

// Pulse says how a process of the run is. Each client and the harness append one twice a second.
type Pulse struct {
	Process string `json:"process"` // c1, c1.2, ... or harness
	At      int64  `json:"at"`

	// Lag is how late a timer was at worst since the Pulse before: because the machine was busy, or because the process was stopped.
	Lag        time.Duration `json:"lag"`
	Heap       uint64        `json:"heap"` // bytes that were live after the last garbage collection
	Goroutines int           `json:"goroutines"`

	// Idle is set in the first Pulse of a process, before it opened a client of the library, and in the last, after it closed it.
	Idle bool `json:"idle,omitempty"`
}

// Signal says when the context of a lease ended because the lease was lost. A lease that was unlocked before has no Signal.
type Signal struct {
	Process string `json:"process"`
	Lock    string `json:"lock"`
	Holder  string `json:"holder"`
	At      int64  `json:"at"`

	// Deadline is when the lease ends without an extend, as the client computed it at the signal.
	Deadline int64  `json:"deadline"`
	Cause    string `json:"cause"`             // class of the error, as in Op.Error
	Renewed  bool   `json:"renewed,omitempty"` // the library renews the lease
}

// Finding is something wrong that the harness itself saw and that the other records do not show: for example that a client crashed. A run
// with a Finding has not passed.
type Finding struct {
	At      int64  `json:"at"`
	Detail  string `json:"detail"`
	Checker string `json:"checker,omitempty"` // which reports it: "effort" if the run did less than it was asked for; else "harness"
}

// Expect is what a run must have done and kept, beyond Promises. It is in the header, so that a judgement of the file is as strict as that
// of the run.
type Expect struct {
	Heal   time.Duration      `json:"heal"` // how long after the last fault a lock may be unavailable
	Min    Minimums           `json:"min"`
	Floors map[string]float64 `json:"floors,omitempty"` // by nemesis: the least availability while a quorum of masters is healthy
}

// Minimums is what a run must have done to mean something. A field that is zero is not checked.
type Minimums struct {
	Acquisitions int            `json:"acquisitions,omitempty"` // locks granted
	UnderFaults  int            `json:"under_faults,omitempty"` // locks granted while a fault was at work
	Readers      int            `json:"readers,omitempty"`      // locks granted to readers
	Contended    int            `json:"contended,omitempty"`    // lock calls made while another client held the lock
	Tokens       int            `json:"tokens,omitempty"`       // grants with a token; if not fewer than Acquisitions, every grant needs one
	Faults       map[string]int `json:"faults,omitempty"`       // by nemesis: faults really applied
}

func (p Pulse) addTo(l *line)   { l.Pulse = &p }
func (s Signal) addTo(l *line)  { l.Signal = &s }
func (f Finding) addTo(l *line) { l.Finding = &f }

func (p Pulse) validate() error {
	if p.Process == "" {
		return errors.New("pulse: process must be named")
	}
	return cmp.Or(began("pulse: at", p.At), lasts("pulse: lag", p.Lag))
}

func (s Signal) validate() error {
	if s.Process == "" || s.Lock == "" || s.Holder == "" {
		return errors.New("signal: process, lock and holder must be named")
	}
	return cmp.Or(began("signal: at", s.At), ended("signal: deadline", s.Deadline))
}

func (f Finding) validate() error {
	if f.Detail == "" {
		return errors.New("finding: it says nothing")
	}
	return began("finding: at", f.At)
}
