// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

// slot is where the master of one slot of a Redis Cluster is looked for. Any of the
// cluster's servers names it, by MOVED, to who asks for a key in the slot; so greet finds
// it, and needs no right that a lock does not need.
type slot struct {
	seeds []string

	mu    sync.Mutex
	at    int    // which seed is next
	owner string // who was named last; empty when nobody was, or it did not answer
	asked string // who was dialled last
}

// again begins to look anew, at another server than the master of before, which may not
// know yet that it is none.
func (s *slot) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == "" { // the seed was the master
		s.at++
	}
	s.owner = ""
}

// addr is whom to dial.
func (s *slot) addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.owner
	if s.asked == "" {
		s.asked = s.seeds[s.at%len(s.seeds)]
	}
	return s.asked
}

// further takes in why the last one dialled is not the master, or cannot say, and
// reports whether to try another at once. tries is how many there were.
func (s *slot) further(err error, tries int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved, ok := redis.IsMovedError(err)
	if !ok {
		s.owner = ""
		s.at++ // also when it was not the seed that failed, but whom it named
	} else if host, port, err := net.SplitHostPort(moved); err == nil && host == "" { // its own
		host, _, _ = net.SplitHostPort(s.asked)
		s.owner = net.JoinHostPort(host, port)
	} else {
		s.owner = moved
	}
	var broken net.Error // a deadline that is over is one too
	again := ok || errors.As(err, &broken) || errors.Is(err, io.EOF) || redis.IsClusterDownError(err)
	return again && tries < 2*len(s.seeds)+1
}

// elsewhere is why a master that answered err is none any more, or not of the slot,
// or nil. A slot that is being moved has its votes on two masters: neither votes, and
// where ASK points to is not asked.
func elsewhere(err error) error {
	if !isReply(err) {
		return nil
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	switch {
	case redis.IsReadOnlyError(err):
		return ErrReplica
	case moved, ask, redis.IsClusterDownError(err), redis.IsTryAgainError(err), halfDone(err):
		return err
	}
	return nil
}

// halfDone is what a script ends with that has not been given all its keys: those that
// it derives, of a slot that is being moved.
func halfDone(err error) bool {
	return strings.Contains(err.Error(), "access a non local key in a cluster")
}

// mode says whether a server that INFO server was asked of is what the node takes it
// for.
func (r *redisNode) mode(server string) error {
	mode := protocol.InfoField(server, "redis_mode")
	if mode == "" {
		mode = protocol.InfoField(server, "server_mode") // Valkey
	}
	switch {
	case r.slot == nil && mode == "cluster":
		return errors.New("node: a server of a Redis Cluster, of which one slot can be a master: use redis-cluster://host:port/?tag=locks, and name locks {locks}:name")
	case r.slot != nil && mode != "cluster":
		return errors.New("node: no server of a Redis Cluster: use redis://")
	}
	return nil
}

// Tag is the hash tag that the names of all locks must have, for this node is only
// the slot of that in a Redis Cluster. Empty: names are free.
func (r *redisNode) Tag() string { return r.cfg.Tag }

// checkTag says why tag cannot be one, or nil.
func checkTag(tag string) error {
	switch {
	case tag == "":
		return errors.New("no tag: which slot of the cluster holds the locks? With the tag locks they are named {locks}:name")
	case strings.ContainsAny(tag, "{}"):
		return errors.New("a tag has no braces")
	}
	return nil
}
