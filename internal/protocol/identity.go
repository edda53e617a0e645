// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
)

// Identity is what a master reports about itself.
type Identity struct {
	RunID string // changes with each start of the process
	// ReplID is the replication id of a data set that came from another master, or from disk; it changes when the
	// data set is replaced. It is empty for a data set that this process began.
	ReplID   string
	Role     string // master or slave, as INFO spells it
	Version  string // "redis 7.0.15", "valkey 8.1.1"
	Eviction string // maxmemory-policy
	Evicted  int64  // how many keys the process has evicted
	// NoReaders lists the rights that the user lacks for read locks of any name, as
	// "set on {redlock:check}:check:rwlock_timeout:1". A user that may touch such keys
	// of some locks only lacks them too. The master then refuses the read locks of
	// other names.
	NoReaders []string

	recorded string // the incarnation in the master's record
	hidden   string // the first of neededFields that INFO did not have
}

// neededFields are the fields of INFO without which a master cannot be believed, and what would
// go unnoticed without each.
var neededFields = []struct{ name, tells string }{
	{"run_id", "a restart that lost locks"},
	{"role", "a replica"},
	{"maxmemory_policy", "an eviction of locks"},
	{"evicted_keys", "an eviction of locks"},
}

// InfoSections are the sections of INFO that ReadIdentity reads.
var InfoSections = []string{"server", "replication", "memory", "stats"}

// ReadIdentity reads the text of InfoSections, and the state field of the master's record.
func ReadIdentity(info, state string) Identity {
	id := Identity{
		RunID:    InfoField(info, "run_id"),
		Role:     InfoField(info, "role"),
		Version:  version(info),
		Eviction: InfoField(info, "maxmemory_policy"),
		Evicted:  Evicted(info),
	}
	// A data set that this process began gets a new replication id when its first replica connects, and nothing else
	// changes. Only a data set that came from elsewhere has a second id.
	if second := InfoField(info, "master_replid2"); strings.Trim(second, "0") != "" {
		id.ReplID = InfoField(info, "master_replid")
	}
	if rs, err := membership.ParseRecordState(state); err == nil {
		id.recorded = rs.Incarnation
	}
	for _, field := range slices.Backward(neededFields) {
		if InfoField(info, field.name) == "" {
			id.hidden = field.name
		}
	}
	return id
}

// Evicted reads from INFO stats how many keys the process has evicted.
func Evicted(info string) int64 {
	if mutants.EvictionUnseen {
		return 0
	}
	n, _ := strconv.ParseInt(InfoField(info, "evicted_keys"), 10, 64)
	return n
}

// Incarnation names one life of one data set. It has 64 of the 160 random bits of each
// id: that is enough to be unique, and every script call carries it. A data set that lost
// keys by eviction is another one from then on, as if it had been flushed: the keys may
// have been votes.
//
// A master forgets where its data set came from when it has had no replica for
// repl-backlog-ttl, an hour by default. From then on Incarnation returns the name in the
// record, if this process wrote it. Otherwise a client that connects later would never
// agree with the clients that connected before.
func (id Identity) Incarnation() string {
	run, data := id.RunID[:min(16, len(id.RunID))]+".", id.ReplID[:min(16, len(id.ReplID))]
	if recorded, same := strings.CutPrefix(id.recorded, run); id.ReplID == "" && same {
		data, _, _ = strings.Cut(recorded, evictedMark)
	}
	if id.Evicted != 0 {
		data += evictedMark + strconv.FormatInt(id.Evicted, 10)
	}
	return run + data
}

// evictedMark stands in an incarnation before the number of evicted keys.
const evictedMark = "+"

// Check returns why a master of this identity must not vote, or nil.
func (id Identity) Check() error {
	for _, field := range neededFields {
		if field.name == id.hidden {
			return fmt.Errorf("%w: %s, without which %s would go unnoticed; name the redis-server itself, not a proxy or a service that hides the field", ErrHidden, field.name, field.tells)
		}
	}
	if id.Role != "master" {
		return fmt.Errorf("%w: role is %q; name its master instead", ErrReplica, id.Role)
	}
	if id.Eviction != "noeviction" {
		return fmt.Errorf("%w: %q; set maxmemory-policy noeviction", ErrEviction, id.Eviction)
	}
	return nil
}

// version reads the name and version of the server from INFO server. A Valkey also
// reports the version of Redis that it is compatible with, which version ignores.
func version(info string) string {
	if InfoField(info, "server_name") == "valkey" {
		return "valkey " + InfoField(info, "valkey_version")
	}
	return "redis " + InfoField(info, "redis_version")
}

// InfoField returns the value of the field name in the text that INFO returns, or "".
func InfoField(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && key == name {
			return value
		}
	}
	return ""
}
