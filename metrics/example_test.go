// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// One client, on masters in memory. A program calls redlock.Open with the URLs of its masters.
func Example() {
	m := metrics.New(metrics.Config{Class: func(name string) string {
		class, _, _ := strings.Cut(name, "/") // "invoice" for "invoice/4711"
		return class
	}})
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)

	clk := clock.Monotonic()
	var nodes []node.Node
	for _, name := range []string{"m1", "m2", "m3"} {
		nodes = append(nodes, nodetest.NewMaster(name).Node(node.Config{Clock: clk}))
	}
	client, err := redlock.New(context.Background(), nodes, redlock.WithObserver(m.Observer()),
		redlock.WithClock(clk), redlock.WithUnsafeRecoveryOff())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := client.Mutex("invoice/4711").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP redlock_leases_held Leases that are held now.
# TYPE redlock_leases_held gauge
redlock_leases_held{class="invoice"} 1
`), "redlock_leases_held")
	fmt.Println("as expected:", err == nil)
	fmt.Println("unlocked:", lease.Unlock(context.Background()))

	// Output:
	// as expected: true
	// unlocked: <nil>
}
