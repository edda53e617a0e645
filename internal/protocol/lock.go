// SPDX-License-Identifier: Apache-2.0

package protocol

import "strings"

// Mode is how a lock is held.
type Mode byte

const (
	Plain Mode = 'x' // by one holder; Redisson's RLock
	Write Mode = 'w' // by one holder; the write side of Redisson's RReadWriteLock
	Read  Mode = 'r' // by any number of holders, while nobody holds the write side
)

// Name is what observers are told of a mode.
func (m Mode) Name() string {
	switch m {
	case Read:
		return "read"
	case Write:
		return "write"
	}
	return "mutex"
}

// Lock is a lock's name and mode with the keys and channels derived from them.
// [Namespace.Lock] computes them once; nobody changes a Lock later.
type Lock struct {
	Name         string // as its callers name it
	Key          string // the key of the votes
	Mode         Mode
	ModeText     string // Mode as an argument of a script
	Channel      string // the channel on which Redisson announces a release
	Queue        string // the key of the lock's queue
	Rest         string // the key that keeps the lock from everybody for a while: see [Request]
	Counter      string // the field of the lock's counter in the node record
	CounterIndex int    // which of the Counters that is
}

// NewLock is [Namespace.Lock] of the empty namespace.
func NewLock(name string, mode Mode) *Lock { return Namespace("").Lock(name, mode) }

// Field is the holder's field in the lock's hash.
func (l *Lock) Field(holder string) string {
	if l.Mode == Write {
		return holder + ":write"
	}
	return holder
}

// Wake is [Namespace.Wake] of the empty namespace.
func Wake(client string) string { return Namespace("").Wake(client) }

const wakePrefix = "redlock:wake:"

// IsWake says whether the channel is a client's [Namespace.Wake].
func IsWake(channel string) bool {
	if rest, ok := strings.CutPrefix(channel, namespaces); ok {
		_, channel, _ = strings.Cut(rest, ":")
	}
	return strings.HasPrefix(channel, wakePrefix) && !strings.HasPrefix(channel, observedPrefix)
}

// Observed is the channel on which the masters tell that the announcement of the lock has changed.
// It begins as a client's [Namespace.Wake] does, so that who may lock may observe. What a message
// says proves nothing: whoever hears one asks the masters.
func (l *Lock) Observed() string { return l.prefix() + companion(observedPrefix, l.Name) }

const observedPrefix = wakePrefix + "leader"

// AnnouncementKey is the key of the lock's [Announcement].
func (l *Lock) AnnouncementKey() string { return l.prefix() + companion("redlock:leader", l.Name) }

// prefix is that of the lock's namespace.
func (l *Lock) prefix() string { return strings.TrimSuffix(l.Key, l.Name) }

// BarKey is the key that keeps the holder's vote from being put back on a master: see [Bar].
func (l *Lock) BarKey(holder string) string {
	return l.prefix() + companion("redlock:barred", l.Name) + ":" + l.Field(holder)
}

// redissonName derives the name of a companion key or channel from a lock's name, as
// Redisson does. A name with braces stays as it is and any other name is wrapped in
// braces, so that the companion is in the lock's cluster slot. Redisson looks for an
// opening brace only, so redissonName does the same.
func redissonName(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// companion derives the name of a key or a channel of our own from a lock's name. Its cluster slot is that of the lock's
// [redissonName]. Other than those, the companions of two locks differ: "b" and "{b}" have a queue each.
func companion(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + "::" + name
	}
	return prefix + ":{" + name + "}"
}

// ofCompanion returns the name from which [companion] with that prefix derived the companion.
func ofCompanion(prefix, companion string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(companion, prefix+":")
	if name, braced := strings.CutPrefix(rest, ":"); braced {
		return name, ok
	}
	return strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}"), ok
}
