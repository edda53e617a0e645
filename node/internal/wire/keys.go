// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Keys are the names of a node's own keys.
type Keys struct {
	Record string         // the node record
	alive  string         // prefix of the clients' signs of life; the client's id follows
	owner  string         // likewise of their labels
	check  *protocol.Lock // the lock on which check.lua tries commands
	wake   string         // the channel on which check.lua tries to publish
	plain  string         // likewise, of a lock that is not read-write
}

// KeysOf returns the keys of a node whose locks have tag and are in ns. They have the tag too, so
// that they are in the locks' slot of a cluster, and are moved, promoted and lost together with
// the votes. Scripts derive a client's keys and the wake channels from the record's name in
// the same way.
func KeysOf(ns protocol.Namespace, tag string) *Keys {
	return &Keys{Record: ns.Record(tag), alive: ns.Alive(tag, ""), owner: ns.Owner(tag, ""), check: ns.Check(tag, protocol.Read),
		wake: ns.Wake("check"), plain: ns.Check(tag, protocol.Plain).Channel}
}

// checkArgs are the keys and channels on which check.lua tries commands, in its order.
func (k *Keys) checkArgs() []any {
	return []any{k.check.Queue, timeoutKey(k.check.Key, "check"), k.alive + "check", k.Record, k.owner + "check", k.check.BarKey("check"), k.check.Rest,
		k.wake, k.check.Channel, k.plain}
}

// timeoutKey is the key whose TTL is that of a reader's vote. Redisson and the scripts
// derive it in the same way.
func timeoutKey(lock, holder string) string {
	if !strings.Contains(lock, "{") {
		lock = "{" + lock + "}"
	}
	return lock + ":" + holder + ":rwlock_timeout:1"
}
