// SPDX-License-Identifier: Apache-2.0

// Package nodetest is a Redis master in memory, for tests and simulations of
// package redlock: it runs the Lua scripts that package node sends, keeps time on a
// clock of its own, and fails as and when a test says.
//
// The scripts run in gopher-lua, an interpreter of Lua 5.1, which is Redis's Lua, on the
// commands of package nodetest. The package's own tests compare both with a real
// redis-server. One difference is known: gopher-lua turns a number of 1e15 or more into
// text with all its digits, where Redis writes 1e+15; so our scripts concatenate none.
//
// A [Master] is the server: its data, its clock, its crashes. A [Node] is one
// client's connection to it, with a lane that behaves as node.Node's does:
// operations in order, replies lost with their connection, releases sent again, breaker. What
// goes wrong on the way is said by one hook, [Node.SetFault].
//
// There is no I/O and no time but package time's, so it all runs under
// testing/synctest; masters and nodes are then to be made inside the bubble. Runs
// repeat exactly there on one condition: no two things happen at the same
// instant, for the runtime orders those as it likes. So let the hook of every
// node delay its messages by random nanoseconds, from a source of its own.
package nodetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Master is one Redis master in memory. Make one with [NewMaster], and a
// connection to it for each client with [Master.Node]. All methods are safe for
// concurrent use and act at once. It has no goroutines and needs no close.
type Master struct {
	name string

	mu      sync.Mutex
	data    *Data
	id      protocol.Identity
	runs    int // how often it was started
	repls   int // how often its data set was replaced
	up      bool
	paused  bool
	dials   int64              // for CLIENT ID
	conns   []*conn            // on which a command may still arrive, oldest first
	scripts map[string]*script // by SHA-1
	subs    []func(channel, payload string)

	// The master's clock: it showed shown when the host's was at anchor, and
	// runs at rate since.
	anchor time.Time
	shown  time.Duration
	rate   float64
}

// NewMaster starts an empty master. name is the address that its nodes report,
// and what its run_id is made of: give each master another.
func NewMaster(name string) *Master {
	now := time.Now()
	m := &Master{
		name: name, data: newData(), up: true, scripts: map[string]*script{},
		anchor: now, shown: time.Duration(now.UnixNano()), rate: 1,
		id: protocol.Identity{Role: "master", Version: "redis 7.0.15", Eviction: "noeviction"},
	}
	m.renewLocked(&m.id.RunID, "run", &m.runs)
	return m
}

// renewLocked gives a part of the identity a value that it never had. What makes it
// new stands first: an incarnation is the beginning of both. A data set that was never
// replaced has no ReplID.
func (m *Master) renewLocked(part *string, what string, count *int) {
	*count++
	*part = fmt.Sprintf("%s%d-%s", what, *count, m.name)
}

// Name is the master's address.
func (m *Master) Name() string { return m.name }

// Crash ends the process: every connection breaks, messages on their way are
// lost, and dialling is refused until Restart. The data stays, as with
// appendfsync always; Flush it for a master that keeps nothing, or Promote an
// older Snapshot for one that loses what was written last.
func (m *Master) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up = false
	conns := m.conns
	m.conns = nil
	for _, c := range conns {
		c.hangUpLocked()
	}
}

// Restart starts the process again, with a new run_id. On a master that is up it
// is a crash and a start in one instant. A master that was paused runs.
func (m *Master) Restart() {
	m.Crash()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up, m.paused = true, false
	m.renewLocked(&m.id.RunID, "run", &m.runs)
	m.id.ReplID = ""
}

// Pause makes the master answer nobody, as a SIGSTOP does: connections stand,
// messages wait, and TTLs run on.
func (m *Master) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = true
}

// Resume ends a Pause. What has arrived meanwhile is executed now, in the order
// of connections, oldest first.
func (m *Master) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = false
	for _, c := range slices.Clone(m.conns) {
		c.pumpLocked()
	}
}

// Flush removes all keys; nothing else tells of it (docs/safety.md A9).
func (m *Master) Flush() { m.replace(newData(), false) }

// Snapshot is a copy of the data as it is now.
func (m *Master) Snapshot() *Data {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.clone()
}

// Promote replaces the data by a copy of d, with a new replication id, as a
// REPLICAOF and its end do: connections stand. For a failover to another process
// use Crash, Promote and Restart.
func (m *Master) Promote(d *Data) { m.replace(d.clone(), true) }

func (m *Master) replace(d *Data, renew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = d
	if renew {
		m.renewLocked(&m.id.ReplID, "repl", &m.repls)
	}
}

// Identity is what the master says of itself on a new connection.
func (m *Master) Identity() protocol.Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// SetIdentity changes what the master says of itself, from the next connection
// on: a role of slave, an evicting policy, the run_id of another master.
func (m *Master) SetIdentity(id protocol.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
}

// StepClock moves the master's clock by d at once. Keys whose TTL is jumped over
// are gone.
func (m *Master) StepClock(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown += d
}

// SetClockRate makes the master's clock run rate times as fast as the host's:
// 1.01 ends TTLs of 10 s after 9.9 s. Default 1.
func (m *Master) SetClockRate(rate float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown, m.anchor = m.nowLocked(), time.Now()
	m.rate = rate
}

func (m *Master) nowLocked() time.Duration {
	since := time.Since(m.anchor)
	if m.rate != 1 { // exact for those who do not ask for it
		since = time.Duration(float64(since) * m.rate)
	}
	return m.shown + since
}

// dbLocked is the data at this instant.
func (m *Master) dbLocked() *DB {
	now := m.nowLocked()
	return &DB{data: m.data, time: now, now: now.Milliseconds(), publish: m.publishLocked}
}

// publishLocked pushes to connections oldest first: the order is the same in
// every run.
func (m *Master) publishLocked(channel, payload string) int {
	for _, fn := range m.subs {
		fn(channel, payload)
	}
	n := 0
	for _, c := range m.conns {
		if c.channels[channel] {
			n++
			c.pushLocked(channel, payload)
		}
	}
	return n
}

// Do runs fn as a script of its own, whether the master is up or not: to look at
// keys, or to write what another program might. It returns the first error of a
// command. fn must not call the master's methods.
func (m *Master) Do(fn func(db *DB)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	db := m.dbLocked()
	fn(db)
	return db.err
}

// Subscribe calls fn for every message that is published from now on, on any
// channel, from within the script: fn must not block, nor call the master's
// methods.
func (m *Master) Subscribe(fn func(channel, payload string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subs = append(m.subs, fn)
}

// Keys returns the names of all keys, sorted.
func (m *Master) Keys() []string {
	var keys []string
	_ = m.Do(func(db *DB) { keys = db.Keys() })
	return keys
}

// Holder is who has the vote for the plain lock of that name: the first field of
// its hash, "" when there is none.
func (m *Master) Holder(lock string) string {
	holder := ""
	_ = m.Do(func(db *DB) {
		if fields := db.HKeys(lock); len(fields) > 0 {
			holder = fields[0]
		}
	})
	return holder
}

// PTTL is what is left to key, on the master's clock; below 0 when it has no TTL
// (-1 ms) or there is no such key (-2 ms).
func (m *Master) PTTL(key string) time.Duration {
	var ms int64
	_ = m.Do(func(db *DB) { ms = db.PTTL(key) })
	return time.Duration(ms) * time.Millisecond
}
