// SPDX-License-Identifier: Apache-2.0

// Package workload is the client process of a chaos run. The client takes locks of package redlock in every way that the library offers,
// reads and writes registers while it holds them, and records each operation in a history. Start starts a client, and Kinds lists what its
// workers do.
//
// A client never records a claim that is longer than the library granted. It reads the time after a lock returned and before it calls
// unlock. It computes deadlines so that a pause of the process makes them earlier and not later. It must read the clock of the host, and
// its history must be on a disk that accepts writes.
//
// A client is a process and not a goroutine of the harness. So it can be stopped (SIGSTOP) while the masters and the other clients go on. It
// runs the program of the harness: Start runs the program again with a variable in its environment, and Serve, which the program calls
// first, finds the variable. Start can also run another program that keeps the contract of package client.
package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/chaos/client"
)

// Kind is one way of using locks.
type Kind string

// The kinds, in the order of Kinds.
const (
	Hot      Kind = "hot"      // one lock that all want, waiting fairly and unfairly
	Cold     Kind = "cold"     // several locks, mostly free, tried and waited for
	Nest     Kind = "nest"     // one lock, taken again by its holder
	RW       Kind = "rw"       // one read-write lock, both sides
	Multi    Kind = "multi"    // pairs of locks as one
	Permits  Kind = "permits"  // a semaphore of two permits
	Lead     Kind = "lead"     // an election
	Load     Kind = "load"     // a flight whose store stays empty
	Rest     Kind = "rest"     // a lock with a minimum hold, and a job that runs once a period
	Pass     Kind = "pass"     // a lock that is transferred and adopted
	Fenced   Kind = "fenced"   // a register that refuses old tokens: read, pause, write
	Unfenced Kind = "unfenced" // a register that trusts everybody: read, pause, write
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Hot, Cold, Nest, RW, Multi, Permits, Lead, Load, Rest, Pass, Fenced, Unfenced}
}

// ParseKinds reads a list such as "hot,rw", or "all". The error names the kinds.
func ParseKinds(s string) ([]Kind, error) {
	if s == "all" {
		return Kinds(), nil
	}
	var ks []Kind
	for word := range strings.SplitSeq(s, ",") {
		k := Kind(strings.TrimSpace(word))
		switch {
		case !slices.Contains(Kinds(), k):
			return nil, fmt.Errorf("no workload %q: want all, or some of %s", word, names(Kinds()))
		case slices.Contains(ks, k):
			return nil, fmt.Errorf("workload %q is named twice", k)
		}
		ks = append(ks, k)
	}
	return ks, nil
}

func names(ks []Kind) string {
	s := make([]string, len(ks))
	for i, k := range ks {
		s[i] = string(k)
	}
	return strings.Join(s, ", ")
}

// Locks returns the names of the locks that workers of these kinds use.
func Locks(kinds []Kind) []string {
	var ls []string
	for _, k := range kinds {
		switch k {
		case Cold:
			ls = append(ls, coldLocks...)
		case Multi:
			ls = append(ls, multiLocks...)
		case Permits:
			ls = append(ls, slots...)
		default:
			ls = append(ls, string(k))
		}
	}
	return ls
}

// ReadWrite says whether a lock of Locks is a read-write lock.
func ReadWrite(lock string) bool { return lock == string(RW) || lock == string(Load) }

var (
	coldLocks  = numbered("cold", 200)
	multiLocks = numbered("multi", 3)
	slots      = []string{"permits:slot:1", "permits:slot:2"}
)

func numbered(name string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%s-%d", name, i+1)
	}
	return s
}

// Spec says what a client does. The harness sends it to the process as JSON: a client.Task with the kinds of work.
type Spec struct {
	client.Task
	Kinds   []Kind `json:"kinds,omitempty"`
	Prefix  string `json:"prefix,omitempty"` // of the names of all locks
	Program string `json:"-"`                // the program to start; empty: this one
	Mutant  string `json:"mutant,omitempty"` // the defence of the lock that the client is without, see internal/mutants; empty: none
}

func (s *Spec) check() error {
	switch {
	case s.Program == "" && len(s.Kinds) == 0:
		return errors.New("workload: kinds must be given")
	case s.Register == "" && (slices.Contains(s.Kinds, Fenced) || slices.Contains(s.Kinds, Unfenced)):
		return errors.New("workload: registers need a Redis of their own")
	}
	return s.Check()
}
