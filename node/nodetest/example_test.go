// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// Masters give their votes, and their answers are lost on the way. A program's tests use package
// redlocktest; what it cannot do is done here.
func Example() {
	ctx := context.Background()
	var masters []*nodetest.Master
	for _, name := range []string{"m1", "m2", "m3"} {
		masters = append(masters, nodetest.NewMaster(name))
	}
	opts := []redlock.Option{redlock.WithNodeTimeout(time.Second)}
	ways := func() (ways []*nodetest.Node, nodes []node.Node) {
		for _, m := range masters {
			way := m.Node(node.Config{})
			ways, nodes = append(ways, way), append(nodes, way)
		}
		return ways, nodes
	}
	_, operator := ways()
	if err := admin.Init(ctx, admin.List{Nodes: operator, Options: opts}, nil, admin.NothingWasEverLocked); err != nil {
		log.Fatal(err)
	}
	for _, n := range operator {
		n.Close()
	}

	to, nodes := ways()
	client, err := redlock.New(ctx, nodes, opts...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	loses := func(c nodetest.Command) nodetest.Fault {
		if c.Name == "acquire" {
			return nodetest.Fault{Lose: nodetest.LoseReply, Cut: true}
		}
		return nodetest.Fault{}
	}
	to[0].SetFault(loses)
	lease, err := client.Mutex("invoice/4711").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("two votes of three:", lease.Unlock(ctx))

	to[1].SetFault(loses)
	_, err = client.Mutex("invoice/4711").TryLock(ctx)
	fmt.Println("one vote of three:", errors.Is(err, redlock.ErrUnreachable))

	// Output:
	// two votes of three: <nil>
	// one vote of three: true
}
