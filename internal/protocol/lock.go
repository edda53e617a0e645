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

// Lock is a lock's name and mode with the keys and channels derived from them. [NewLock]
// computes them once; nobody changes a Lock later.
type Lock struct {
	Name         string
	Mode         Mode
	ModeText     string // Mode as an argument of a script
	Channel      string // the channel on which Redisson announces a release
	Queue        string // the key of the lock's queue
	Counter      string // the field of the lock's counter in the node record
	CounterIndex int    // which of the Counters that is
}

// NewLock derives the keys and channels of one side of the lock called name.
func NewLock(name string, mode Mode) *Lock {
	l := &Lock{
		Name: name, Mode: mode, ModeText: string(mode),
		Channel:      redissonName("redisson_lock__channel", name),
		Queue:        redissonName("redlock:queue", name),
		CounterIndex: counterIndex(name),
	}
	l.Counter = CounterField(l.CounterIndex)
	if mode != Plain {
		l.Channel = redissonName("redisson_rwlock", name)
	}
	return l
}

// Field is the holder's field in the lock's hash.
func (l *Lock) Field(holder string) string {
	if l.Mode == Write {
		return holder + ":write"
	}
	return holder
}

// Wake is the channel on which the masters wake the waiters of a client. A message is a [Hand], or
// the name of a lock: a wake.
func Wake(client string) string { return wakePrefix + client }

const wakePrefix = "redlock:wake:"

// IsWake says whether the channel is a client's [Wake].
func IsWake(channel string) bool {
	return strings.HasPrefix(channel, wakePrefix) && !strings.HasPrefix(channel, observedPrefix)
}

// Observed is the channel on which the masters tell that the announcement of the lock called name has
// changed. It begins as a client's [Wake] does, so that who may lock may observe. What a message says
// proves nothing: whoever hears one asks the masters.
func Observed(name string) string { return redissonName(observedPrefix, name) }

const observedPrefix = wakePrefix + "leader"

// AnnouncementKey is the key of the [Announcement] of the lock called name.
func AnnouncementKey(name string) string { return redissonName("redlock:leader", name) }

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
