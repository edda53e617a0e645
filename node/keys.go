// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// keys are what a node's own keys are called: the record, clients' signs of life (what
// comes before the client's id), and the lock that check.lua tries commands on.
type keys struct {
	record, alive string
	check         *protocol.Lock
}

// checked are the keys and channels that check.lua tries commands on, in its order.
func (k *keys) checked() []any {
	return []any{k.check.Queue, timeoutKey(k.check.Name, "check"), k.alive + "check", k.record,
		protocol.Wake("check"), k.check.Channel, protocol.NewLock(k.check.Name, protocol.Plain).Channel}
}

// timeoutKey is the key by which a reader's vote lives, as Redisson and the scripts
// derive it.
func timeoutKey(lock, holder string) string {
	if !strings.Contains(lock, "{") {
		lock = "{" + lock + "}"
	}
	return lock + ":" + holder + ":rwlock_timeout:1"
}

// keysIn are those of a node whose locks have tag: in their slot of a cluster, for
// that alone is moved, promoted and lost together with the votes. votes.lua makes the
// same of the record's name.
func keysIn(tag string) *keys {
	if tag != "" {
		tag = ":{" + tag + "}"
	}
	return &keys{record: protocol.RecordKey + tag, alive: "redlock:alive" + tag + ":", check: protocol.NewLock("redlock:check"+tag, protocol.Read)}
}
