// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"fmt"
	"sync"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// Runs knows which process each node has met, so that one master under two addresses is noticed: it would vote twice
// (docs/safety.md A25).
type Runs struct {
	mu  sync.Mutex
	ids []string // run_id by node; empty while the node has met none
}

// Meet notes that node i is connected to a process, and returns another node that is connected to the same one, or -1. It looks
// at the nodes for which counts is true. If there is such a node, node i counts as not connected.
func (r *Runs) Meet(i int, runID string, counts func(j int) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.ids) <= i {
		r.ids = append(r.ids, "")
	}
	// Where the node was before it is no more: two slots of a cluster may change places.
	r.ids[i] = ""
	for j, other := range r.ids {
		if j != i && other == runID && counts(j) {
			return j
		}
	}
	r.ids[i] = runID
	return -1
}

// Same is the [protocol.ErrSame] of two nodes whose server has that identity.
func Same(a, b node.Node, id protocol.Identity) error {
	return fmt.Errorf("%s and %s %w (run_id %s): name it once", a.Name(), b.Name(), protocol.ErrSame, id.RunID)
}
