// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/node"
)

// Ready waits for the first answers of all nodes' masters, as each node's Ready does, and returns the errors by node.
func Ready(ctx context.Context, nodes []node.Node) []error {
	failed := make([]error, len(nodes))
	var g errgroup.Group
	for i, n := range nodes {
		g.Go(func() error {
			failed[i] = n.Ready(ctx)
			return nil
		})
	}
	_ = g.Wait()
	return failed
}
