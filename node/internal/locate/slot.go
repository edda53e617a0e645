// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Slot is the master of one slot of a Redis Cluster. Any server of the cluster names that
// master, by MOVED, when a client asks for a key in the slot. The greeting of a connection
// does so. Slot therefore needs no right that a lock does not need.
type Slot struct {
	seeds []string

	mu    sync.Mutex
	next  int    // index of the seed to dial next
	owner string // the server that MOVED named; empty if none did, or if that server did not answer
	asked string // the server dialled last
}

// NewSlot returns a Slot that starts its searches at seeds.
func NewSlot(seeds []string) *Slot { return &Slot{seeds: slices.Clone(seeds)} }

// Seeds returns where searches start.
func (s *Slot) Seeds() []string { return s.seeds }

// Search implements [Locator]. It starts at another server than the previous master, which
// may not know yet that it was replaced.
func (s *Slot) Search() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == "" { // the seed itself was the master
		s.next++
	}
	s.owner = ""
}

// Addr implements [Locator].
func (s *Slot) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.owner
	if s.asked == "" {
		s.asked = s.seeds[s.next%len(s.seeds)]
	}
	return s.asked
}

// Redirect implements [Locator]. It records what the server dialled last replied: MOVED
// with another address, or an error.
func (s *Slot) Redirect(err error, tries int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved, ok := Moved(err, s.asked)
	if !ok {
		s.next++ // also if the server that a seed named failed, and not the seed
	}
	s.owner = moved
	var broken net.Error // includes a timeout
	again := ok || errors.As(err, &broken) || errors.Is(err, io.EOF) || redis.IsClusterDownError(err)
	return again && tries < 2*len(s.seeds)+1
}

// Moved returns the address that the MOVED in err names, in a form that can be dialled. A server of a cluster on IPv6 writes its host
// without brackets. If there is no host, it is the one of asked, the server that replied.
func Moved(err error, asked string) (addr string, ok bool) {
	addr, ok = redis.IsMovedError(err)
	colon := strings.LastIndexByte(addr, ':')
	if !ok || colon < 0 {
		return addr, ok
	}
	host := strings.Trim(addr[:colon], "[]")
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, addr[colon+1:]), true
}

// Several implements [Locator].
func (s *Slot) Several() bool { return true }

// CheckMode implements [Locator].
func (s *Slot) CheckMode(cluster bool) error {
	if !cluster {
		return errors.New("node: no server of a Redis Cluster: use redis://")
	}
	return nil
}

// MaxIdle implements [Locator].
func (s *Slot) MaxIdle() time.Duration { return maxIdleBehindFailover }

// BehindFailover implements [Locator].
func (s *Slot) BehindFailover() bool { return true }

// CheckTag returns why tag cannot be the tag of a slot, or nil.
func CheckTag(tag string) error {
	switch {
	case tag == "":
		return errors.New("no tag: which slot of the cluster holds the locks? With the tag locks they are named {locks}:name")
	case strings.ContainsAny(tag, "{}"):
		return errors.New("a tag has no braces")
	}
	return nil
}
