// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Trip implements [Node].
func (r *redisNode) Trip() time.Duration {
	if !r.reachable.Load() {
		return 0
	}
	return time.Duration(r.trip.Load())
}

// stallAfter is Config.StallAfter, or its default.
func (r *redisNode) stallAfter() time.Duration {
	if r.cfg.StallAfter > 0 {
		return r.cfg.StallAfter
	}
	return protocol.NodeTimeout(time.Duration(r.trip.Load()), protocol.DefaultNodeTimeout, r.cfg.IOTimeout)
}
