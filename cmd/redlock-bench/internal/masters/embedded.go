// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"context"
	"fmt"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// OpenEmbedded makes n masters in memory, for a first look where there is no redis-server. They have no sockets and no processes, so what
// costs most in a real run is missing: no figure of theirs says anything about Redis.
func OpenEmbedded(n int) *Backend {
	b := New(Embedded, n)
	b.About = []string{
		fmt.Sprintf("%d EMBEDDED in this process: throw-away, not Redis, for a first look", n),
		"no redis-server was found; to have one: apt-get install -y redis-server",
	}
	masters := make([]*nodetest.Master, n)
	for i := range masters {
		masters[i] = nodetest.NewMaster(fmt.Sprintf("embedded-%d", i+1))
	}
	c := clock.Monotonic() // nodes and client must share one
	b.NewClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		opts = append(opts, redlock.WithClock(c), redlock.WithFixedMasters())
		nodes := embeddedNodes(masters, c)
		err := begin(context.Background(), admin.List{Nodes: nodes, Options: opts})
		closeNodes(nodes)
		if err != nil {
			return nil, err
		}
		nodes = embeddedNodes(masters, c)
		client, err := redlock.New(context.Background(), nodes, opts...)
		if err != nil {
			closeNodes(nodes)
		}
		return client, err
	}
	return b
}

func embeddedNodes(masters []*nodetest.Master, c clock.Clock) []node.Node {
	nodes := make([]node.Node, len(masters))
	for i, m := range masters {
		nodes[i] = m.Node(node.Config{Clock: c})
	}
	return nodes
}

func closeNodes(nodes []node.Node) {
	for _, n := range nodes {
		_ = n.Close()
	}
}
