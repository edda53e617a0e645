// SPDX-License-Identifier: Apache-2.0

// Package nodetest is a Redis master in memory, for tests and simulations of
// package redlock. It runs the Lua scripts that package node sends, keeps time on a
// clock of its own, and fails when a test tells it to.
//
// It knows Redis's commands as far as the scripts use them, and RESP. It knows
// nothing of quorums or leases. It imports package clock, internal/protocol and
// package node. Besides tests and simulations, redlocktest and redlock-bench without a redis-server use it.
//
// The scripts run in gopher-lua, an interpreter of Lua 5.1, which is Redis's Lua, on the
// commands of package nodetest. The package's own tests compare both with a real
// redis-server. One difference is known: gopher-lua turns a number of 1e15 or more into
// text with all its digits, where Redis writes 1e+15. No script of this project
// concatenates such a number.
//
// A [Master] is the server: its data, its clock, its crashes. A [Node] is one
// client's connection to it: a node of package node, whose traffic stays in the
// process. One hook, [Node.SetFault], decides what goes wrong on the way.
//
// The package does no I/O, and takes the time from package time. So it runs under
// testing/synctest; the test must make masters and nodes inside the bubble. Runs
// repeat exactly there if no two events happen at the same instant, because the
// runtime orders such events at random. So let the hook of each node delay its
// messages by random nanoseconds, each from its own source.
package nodetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest/internal/script"
)

// Master is one Redis master in memory. Make one with [NewMaster], and a
// connection to it for each client with [Master.Node]. All methods are safe for
// concurrent use and take effect at once. A Master has no goroutines and needs no
// Close.
type Master struct {
	name string

	mu      sync.Mutex
	data    *Data
	id      protocol.Identity
	runs    int // how often it was started
	repls   int // how often its data set was replaced
	up      bool
	paused  bool
	dials   int64   // for CLIENT ID
	conns   []*conn // on which a command may still arrive, oldest first
	scripts script.Loaded
	edit    func(string) string
	refuses error
	subs    []func(channel, payload string)
	calls   func(command string) // hears of each command that a script calls; nil: nobody does

	// The master's clock: it showed shown when the host's was at anchor, and
	// runs at rate since.
	anchor time.Time
	shown  time.Duration
	rate   float64
}

// NewMaster starts an empty master. name is the address that its nodes report, and
// part of its run_id. Give each master a different name.
func NewMaster(name string) *Master {
	now := time.Now()
	m := &Master{
		name: name, data: newData(), up: true, scripts: script.Loaded{},
		anchor: now, shown: time.Duration(now.UnixNano()), rate: 1,
		id: protocol.Identity{Role: "master", Version: "redis 7.0.15", Eviction: "noeviction"},
	}
	m.renewLocked(&m.id.RunID, "run", &m.runs)
	return m
}

// renewLocked gives a part of the identity a new value. The count that makes it new
// comes first, because an incarnation is made of the first characters. A data set that
// was never replaced has no ReplID.
func (m *Master) renewLocked(part *string, what string, count *int) {
	*count++
	*part = fmt.Sprintf("%s%d-%s", what, *count, m.name)
}

// Name is the master's address.
func (m *Master) Name() string { return m.name }

// Crash ends the process: every connection breaks, messages on their way are
// lost, and the master refuses connections until Restart. The data stays, as with
// appendfsync always. For a master that keeps nothing call Flush. For a master that
// loses its last writes Promote an older Snapshot.
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

// Restart starts the process again, with a new run_id. A master that is up crashes
// and starts at one instant. A master that was paused runs again.
func (m *Master) Restart() {
	m.Crash()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up, m.paused = true, false
	m.renewLocked(&m.id.RunID, "run", &m.runs)
	m.id.ReplID, m.id.Evicted = "", 0
}

// Pause stops the master, as SIGSTOP does. It answers nothing; connections stay open,
// messages wait, and TTLs run on.
func (m *Master) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = true
}

// Resume ends a Pause. The master executes the commands that have arrived meanwhile,
// connection by connection, oldest first.
func (m *Master) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = false
	for _, c := range slices.Clone(m.conns) {
		c.pumpLocked()
	}
}

// Flush removes all keys. The identity does not change (docs/safety.md A9).
func (m *Master) Flush() { m.replace(newData(), false) }

// Evict removes these keys, as a master does that is short of memory and whose policy allows it, and counts
// them.
func (m *Master) Evict(keys ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	db := m.dbLocked()
	for _, key := range keys {
		m.id.Evicted += int64(db.Del(key))
	}
}

// RefuseWrites makes the master answer err to what writes, until it is called with nil. The first word of err is
// Redis's code: MISCONF, NOREPLICAS, or OOM, which only commands get that need memory.
func (m *Master) RefuseWrites(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses = err
}

// Snapshot is a copy of the data as it is now.
func (m *Master) Snapshot() *Data {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.clone()
}

// Promote replaces the data by a copy of d and changes the replication id, as
// REPLICAOF followed by REPLICAOF NO ONE does. Connections stay open. For a failover to
// another process call Crash, Promote and Restart.
func (m *Master) Promote(d *Data) { m.replace(d.clone(), true) }

func (m *Master) replace(d *Data, renew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = d
	if renew {
		m.renewLocked(&m.id.ReplID, "repl", &m.repls)
	}
}

// Identity is what the master reports about itself on a new connection.
func (m *Master) Identity() protocol.Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// SetIdentity changes what the master reports about itself on new connections: for
// example the role slave, an evicting policy, or the run_id of another master.
func (m *Master) SetIdentity(id protocol.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
}

// EditScripts makes the master run edit(text) in place of each script that is loaded from now on, under the name of text.
// A test breaks scripts with it.
func (m *Master) EditScripts(edit func(text string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.edit = edit
}

// StepClock moves the master's clock by d at once. Keys whose TTL ends within the step
// expire.
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
	if m.rate != 1 { // without a rate the time stays exact
		since = time.Duration(float64(since) * m.rate)
	}
	return m.shown + since
}

// dbLocked returns the data as of now, on the master's clock.
func (m *Master) dbLocked() *DB {
	now := m.nowLocked()
	return &DB{data: m.data, time: now, now: now.Milliseconds(), publish: m.publishLocked, hears: m.subscribersLocked, refuses: m.refuses, calls: m.calls}
}

// publishLocked pushes to the oldest connection first, so that the order is the same in
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

func (m *Master) subscribersLocked(channel string) (n int) {
	for _, c := range m.conns {
		if c.channels[channel] {
			n++
		}
	}
	return n
}

// Do runs fn as if it were a script, whether the master is up or not. A test uses it
// to read keys, or to write what another program might write. Do returns the first
// error of a command. fn must not call the master's methods.
func (m *Master) Do(fn func(db *DB)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	db := m.dbLocked()
	fn(db)
	return db.err
}

// Subscribe calls fn for every message that is published from now on, on any
// channel. The publishing script calls fn, so fn must neither block nor call the
// master's methods.
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

// Holder returns the holder of the plain lock of that name on this master: the first
// field of its hash, or "".
func (m *Master) Holder(lock string) string {
	holder := ""
	_ = m.Do(func(db *DB) {
		if fields := db.HKeys(lock); len(fields) > 0 {
			holder = fields[0]
		}
	})
	return holder
}

// PTTL returns the rest of key's TTL, on the master's clock. It is -1 ms if the key
// has no TTL, and -2 ms if there is no such key.
func (m *Master) PTTL(key string) time.Duration {
	var ms int64
	_ = m.Do(func(db *DB) { ms = db.PTTL(key) })
	return time.Duration(ms) * time.Millisecond
}
