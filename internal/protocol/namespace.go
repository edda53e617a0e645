// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strings"

	"github.com/redlock-go/redlock/internal/mutants"
)

// Namespace is a set of locks whose keys and channels have a prefix of their own. The empty
// namespace has no prefix. Two namespaces have no key and no channel in common, so on one Redis
// server each has a master of its own: a record, counters, queues and signs of life.
type Namespace string

// namespaces starts the prefix of every namespace. No name of a lock may start with "redlock:", so
// no lock of the empty namespace is in a namespace.
const namespaces = "redlock:ns:"

// prefix is what all keys and channels of the namespace begin with, but for those that Redisson's
// layout wraps in braces or begins with redisson_.
func (ns Namespace) prefix() string {
	if ns == "" {
		return ""
	}
	return namespaces + string(ns) + ":"
}

// Lock derives the keys and channels of one side of the lock called name.
func (ns Namespace) Lock(name string, mode Mode) *Lock {
	key := ns.prefix() + name
	l := &Lock{
		Name: name, Key: key, Mode: mode, ModeText: string(mode),
		Channel:      redissonName("redisson_lock__channel", key),
		Queue:        ns.prefix() + companion("redlock:queue", name),
		Rest:         ns.prefix() + companion("redlock:rest", name),
		CounterIndex: counterIndex(name),
	}
	l.Counter = CounterField(l.CounterIndex)
	if mutants.SharedQueue {
		l.Queue = companion("redlock:queue", name)
	}
	if mode != Plain {
		l.Channel = redissonName("redisson_rwlock", key)
	}
	return l
}

// NameOf returns the name of the lock at key. ok is false if the key is outside of the namespace.
func (ns Namespace) NameOf(key string) (name string, ok bool) {
	return strings.CutPrefix(key, ns.prefix())
}

// ObservedName returns the name of the lock whose [Lock.Observed] the channel is. ok is false if it is none of the namespace.
func (ns Namespace) ObservedName(channel string) (name string, ok bool) {
	return ofCompanion(ns.prefix()+observedPrefix, channel)
}

// Wake is the channel on which the masters wake the waiters of a client. A message is a [Hand], or
// the key of a lock and a place: a wake.
func (ns Namespace) Wake(client string) string { return ns.prefix() + wakePrefix + client }

// Record is the key of the node record. tag is the hash tag of the locks, or empty.
func (ns Namespace) Record(tag string) string { return ns.prefix() + RecordKey + inBraces(tag) }

// Alive is the key of a client's sign of life.
func (ns Namespace) Alive(tag, client string) string {
	return ns.prefix() + "redlock:alive" + inBraces(tag) + ":" + client
}

// Owner is the key of a client's label.
func (ns Namespace) Owner(tag, client string) string {
	return ns.prefix() + "redlock:owner" + inBraces(tag) + ":" + client
}

// Check is the lock on which check.lua tries commands. No client uses it.
func (ns Namespace) Check(tag string, mode Mode) *Lock {
	return ns.Lock("redlock:check"+inBraces(tag), mode)
}

func inBraces(tag string) string {
	if tag == "" {
		return ""
	}
	return ":{" + tag + "}"
}

// ACL returns the rights that a user of the namespace needs, as words of ACL SETUSER. A user with
// these rights and no others can touch no key and no channel of another namespace. The words for
// the empty namespace allow every key: its locks may have any name. A user of another one may not SCAN,
// which shows the names of all keys, so [ListLocks] is refused.
func (ns Namespace) ACL() []string {
	words := []string{
		"+hello", "+ping", "+select", "+info", "+client|id", "+client|kill", "+client|setname",
		"+script|load", "+eval", "+evalsha", "+subscribe", "+unsubscribe", "+publish", "+pubsub|numsub", "+time",
		"+exists", "+set", "+get", "+del", "+pttl", "+pexpire",
		"+hset", "+hget", "+hmget", "+hgetall", "+hexists", "+hkeys", "+hlen", "+hdel", "+hrandfield",
		"+zadd", "+zscore", "+zrank", "+zrange", "+zrem", "+zpopmin",
	}
	if ns == "" {
		return append(words, "+scan", "~*", "&redisson_*", "&"+wakePrefix+"*")
	}
	// A name with braces stays as it is in the names that Redisson derives, any other is wrapped in
	// braces: hence two patterns for each.
	p := ns.prefix()
	return append(words, "~"+p+"*", "~{"+p+"*", "&"+p+"*",
		"&redisson_lock__channel:"+p+"*", "&redisson_lock__channel:{"+p+"*",
		"&redisson_rwlock:"+p+"*", "&redisson_rwlock:{"+p+"*")
}
