// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
)

// Identity is what a master says of itself.
type Identity struct {
	RunID string // changes with each start of the process
	// ReplID is the replication id of a data set that came from another master, or from disk; it changes when the
	// data set is replaced. It is empty for a data set that this process began.
	ReplID   string
	Role     string // master or slave, in the words of INFO
	Version  string // "redis 7.0.15", "valkey 8.1.1"
	Eviction string // maxmemory-policy
	// NoReaders are the rights that the user lacks for read locks of any name, as
	// "set on {redlock:check}:check:rwlock_timeout:1". A user that may touch such keys
	// of some locks only has them all the same; a read lock of another is refused.
	NoReaders []string

	recorded string // the incarnation that the master's record tells
}

// ReadIdentity reads the sections server, replication and memory of INFO, and the gate of the master's record.
func ReadIdentity(info, gate string) Identity {
	id := Identity{
		RunID:    field(info, "run_id"),
		Role:     field(info, "role"),
		Version:  version(info),
		Eviction: field(info, "maxmemory_policy"),
	}
	// A data set that this process began gets a new replication id when its first replica connects, and nothing else
	// changes. Only one that came from elsewhere has a second id.
	if second := field(info, "master_replid2"); strings.Trim(second, "0") != "" {
		id.ReplID = field(info, "master_replid")
	}
	if g, err := membership.ParseGate(gate); err == nil {
		id.recorded = g.Incarnation
	}
	return id
}

// Incarnation names one life of one data set. 64 of 160 random bits of each id are
// plenty, and every script call carries it.
//
// A master forgets where its data set came from when it has had no replica for
// repl-backlog-ttl, an hour by default. From then on the record tells the name, if this
// process wrote it: else a client that connects later would never agree with those
// before it.
func (id Identity) Incarnation() string {
	run := id.RunID[:min(16, len(id.RunID))] + "."
	if id.ReplID == "" && strings.HasPrefix(id.recorded, run) {
		return id.recorded
	}
	return run + id.ReplID[:min(16, len(id.ReplID))]
}

// Check returns why a master of this identity must not vote, or nil.
func (id Identity) Check() error {
	if id.Role != "master" {
		return fmt.Errorf("%w: role is %q; name its master instead", ErrReplica, id.Role)
	}
	if id.Eviction != "" && id.Eviction != "noeviction" {
		return fmt.Errorf("%w: %q; set maxmemory-policy noeviction", ErrEviction, id.Eviction)
	}
	return nil
}

// version is what INFO server says of the program. A Valkey also tells the version of
// Redis that it is compatible with, which it is not.
func version(info string) string {
	if field(info, "server_name") == "valkey" {
		return "valkey " + field(info, "valkey_version")
	}
	return "redis " + field(info, "redis_version")
}

func field(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && key == name {
			return value
		}
	}
	return ""
}
