// SPDX-License-Identifier: Apache-2.0

// Package workload is a client process of the chaos harness: it takes locks of package redlock in every way there is, works under
// them, and writes down what it was told.
//
// Guarantee: what a client records never claims more than the client was told. A claim's deadline is read so that a pause at any point
// makes it earlier, never later; the return of a lock is read after it returned, the call of an unlock before it is called. Conditions:
// the client's clock is the host's, and the file of its history is on a disk that takes writes.
//
// A client is a process of its own and not a goroutine of the harness so that it can be stopped (SIGSTOP) while its masters and the other
// clients run on. It is the harness's own program, started again: Start sets a variable in its environment, and Serve, which the
// program calls first, sees it.
package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
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
	Fenced   Kind = "fenced"   // a register that refuses old tokens: read, pause, write
	Unfenced Kind = "unfenced" // a register that trusts everybody: read, pause, write
)

// Kinds is all kinds.
func Kinds() []Kind { return []Kind{Hot, Cold, Nest, RW, Multi, Fenced, Unfenced} }

// ParseKinds reads "hot,rw" or "all". An error names what there is.
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

// Locks is the names of the locks that kinds use: what must be lockable again after the faults.
func Locks(kinds []Kind) []string {
	var ls []string
	for _, k := range kinds {
		switch k {
		case Cold:
			ls = append(ls, coldLocks...)
		case Multi:
			ls = append(ls, multiLocks...)
		default:
			ls = append(ls, string(k))
		}
	}
	return ls
}

var (
	coldLocks  = numbered("cold", 200)
	multiLocks = numbered("multi", 3)
)

func numbered(name string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%s-%d", name, i+1)
	}
	return s
}

// Spec is what a client is told. It goes to the process as JSON.
type Spec struct {
	Name     string   // of the client in the history: c1, c2, ...
	Seed     uint64   // of its choices
	Nodes    []string // URLs of the masters, as redlock.Open takes them
	Register string   // "host:port" of the Redis that has the registers; only for Fenced and Unfenced
	Kinds    []Kind
	TTL      time.Duration // of every lock
	MaxTTL   time.Duration // of the epoch
	Think    time.Duration // the mean time of a worker between two locks
	History  string        // file to write
	Program  string        // another build of the harness's program, to start instead of it; empty: the same
	Header   history.Header
}

func (s *Spec) check() error {
	switch {
	case s.Name == "" || s.History == "" || len(s.Nodes) == 0 || len(s.Kinds) == 0:
		return errors.New("workload: name, history, nodes and kinds must be given")
	case s.TTL <= 0 || s.MaxTTL < s.TTL || s.Think <= 0:
		return fmt.Errorf("workload: TTL %v, MaxTTL %v and Think %v must be positive, and TTL no longer than MaxTTL", s.TTL, s.MaxTTL, s.Think)
	case s.Register == "" && (slices.Contains(s.Kinds, Fenced) || slices.Contains(s.Kinds, Unfenced)):
		return errors.New("workload: registers need a Redis of their own")
	}
	return nil
}
