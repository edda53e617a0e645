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
	check  *protocol.Lock // the lock on which check.lua tries commands
}

// KeysOf returns the keys of a node whose locks have tag. They have the tag too, so that
// they are in the locks' slot of a cluster, and are moved, promoted and lost together with
// the votes. votes.lua derives the sign of life from the record's name in the same way.
func KeysOf(tag string) *Keys {
	if tag != "" {
		tag = ":{" + tag + "}"
	}
	return &Keys{Record: protocol.RecordKey + tag, alive: "redlock:alive" + tag + ":", check: protocol.NewLock("redlock:check"+tag, protocol.Read)}
}

// checkArgs are the keys and channels on which check.lua tries commands, in its order.
func (k *Keys) checkArgs() []any {
	return []any{k.check.Queue, timeoutKey(k.check.Name, "check"), k.alive + "check", k.Record,
		protocol.Wake("check"), k.check.Channel, protocol.NewLock(k.check.Name, protocol.Plain).Channel}
}

// timeoutKey is the key whose TTL is that of a reader's vote. Redisson and the scripts
// derive it in the same way.
func timeoutKey(lock, holder string) string {
	if !strings.Contains(lock, "{") {
		lock = "{" + lock + "}"
	}
	return lock + ":" + holder + ":rwlock_timeout:1"
}
