// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ID names the terms of an epoch. It is a hash of their text.
type ID uint64

// Epoch is one period in which the same terms hold. The number grows with each change of masters, so that a list
// that comes back has another epoch than before. The zero Epoch is none.
type Epoch struct {
	Number int64
	ID     ID
}

func (e Epoch) String() string { return fmt.Sprintf("%d.%016x", e.Number, uint64(e.ID)) }

// Terms is what clients must agree on to exclude each other. NewTerms and ParseTerms make it; nobody writes to it.
type Terms struct {
	ID      ID
	Masters []string // names, sorted
	MaxTTL  time.Duration
	// The drift of the clocks over a time t is Factor*t + Constant. It is part of the ID: all clients wait equally long.
	Factor   float64
	Constant time.Duration
	// Fixed: the list is never changed. Then a master that lost its record begins again after the wait, even if
	// nobody saw the epoch whole, on first use too.
	Fixed bool
}

// NewTerms sorts the names. It fails when there are none, when one is empty, no UTF-8 or named twice, and when a number
// is out of range.
func NewTerms(masters []string, maxTTL time.Duration, factor float64, constant time.Duration, fixed bool) (*Terms, error) {
	t := &Terms{Masters: slices.Clone(masters), MaxTTL: maxTTL, Factor: factor, Constant: constant, Fixed: fixed}
	slices.Sort(t.Masters)
	if len(masters) == 0 {
		return nil, fmt.Errorf("membership: no masters")
	}
	for i, name := range t.Masters {
		switch {
		case name == "":
			return nil, fmt.Errorf("membership: a master without a name; give it one with ?name= in its URL")
		case !utf8.ValidString(name): // a voucher is JSON, which has no other text
			return nil, fmt.Errorf("membership: the name %q of a master is no UTF-8; give it another one with ?name= in its URL", name)
		case i > 0 && name == t.Masters[i-1]:
			return nil, fmt.Errorf("membership: master %s is listed twice; give two masters two names with ?name= in their URLs", name)
		}
	}
	if maxTTL <= 0 || !(factor >= 0 && factor < 1) || constant < 0 || maxTTL > math.MaxInt64/8 || constant > math.MaxInt64/8 {
		return nil, fmt.Errorf("membership: maximum TTL %v, drift %v + %v: want a TTL above 0, a factor of 0 to below 1 and a constant of 0 or more", maxTTL, factor, constant)
	}
	sum := sha256.Sum256([]byte(t.String()))
	t.ID = ID(binary.BigEndian.Uint64(sum[:8]) | 1) // never 0, which is no ID
	return t, nil
}

// String is the text of the terms in a record: "3 masters a b c, maximum TTL 30s, drift 0.01 + 2ms", and ", fixed".
func (t *Terms) String() string {
	names := make([]string, len(t.Masters))
	for i, name := range t.Masters {
		names[i] = url.PathEscape(name)
	}
	s := fmt.Sprintf("%d masters %s, maximum TTL %v, drift %v + %v", len(names), strings.Join(names, " "), t.MaxTTL, t.Factor, t.Constant)
	if t.Fixed {
		s += ", fixed"
	}
	return s
}

// ParseTerms is the inverse of String.
func ParseTerms(s string) (*Terms, error) {
	wrong := bad("the text of its epoch", s)
	rest, fixed := strings.CutSuffix(s, ", fixed")
	part := strings.Split(rest, ", ")
	if len(part) != 3 {
		return nil, wrong
	}
	words := strings.Split(part[0], " ")
	ttl, isTTL := strings.CutPrefix(part[1], "maximum TTL ")
	drift, isDrift := strings.CutPrefix(part[2], "drift ")
	factor, constant, _ := strings.Cut(drift, " + ")
	maxTTL, err := time.ParseDuration(ttl)
	f, err2 := strconv.ParseFloat(factor, 64)
	c, err3 := time.ParseDuration(constant)
	if len(words) < 3 || !isTTL || !isDrift || err != nil || err2 != nil || err3 != nil {
		return nil, wrong
	}
	names := words[2:]
	for i := range names {
		if names[i], err = url.PathUnescape(names[i]); err != nil {
			return nil, wrong
		}
	}
	t, err := NewTerms(names, maxTTL, f, c, fixed)
	if err != nil || t.String() != s {
		return nil, wrong
	}
	return t, nil
}

// Quorum is the majority of the masters.
func (t *Terms) Quorum() int { return len(t.Masters)/2 + 1 }

// Drift is how far two clocks may run apart over d.
func (t *Terms) Drift(d time.Duration) time.Duration {
	return time.Duration(float64(d)*t.Factor) + t.Constant
}

// Wait is W, how long a master must not vote after it may have forgotten a vote, and how long nothing can be locked
// during a change. Every lease that was granted before is over then. The drift counts twice: the clock of the lease's
// client may be slow and the clock that times the wait fast.
func (t *Terms) Wait() time.Duration { return t.MaxTTL + 2*t.Drift(t.MaxTTL) }
