// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"crypto/tls"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// A program that has go-redis clients with settings that no URL has gives these to the lock. redlock.Open is for all others.
func Example() {
	var nodes []node.Node
	for _, address := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		master := redis.NewClient(&redis.Options{
			Addr:      address,
			TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13},
		})
		defer master.Close() // behind client.Close, which comes first
		n, err := node.New(master, node.Config{DialTimeout: 2 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := redlock.New(ctx, nodes)
	if err != nil {
		log.Fatal(err) // and the nodes are to be closed, in a program that goes on
	}
	defer client.Close() // closes the nodes
}
