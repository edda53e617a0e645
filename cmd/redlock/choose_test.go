// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"strconv"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// The examples of docs/choose-your-redis.md are run as they stand there, on other ports.
func TestChoose_examplesOfTheDocs(t *testing.T) {
	needs.Test(t) // they wait for a replica and a cluster
	needs.Redis(t)
	needs.Program(t, "redis-cli")
	t.Parallel()
	for heading, port := range map[string]func(testing.TB) string{
		"A user with few rights":     freePort,
		"One master behind Sentinel": freePort,
		"One slot of a cluster":      freeClusterPort,
	} {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			said := runExample(t, "choose-your-redis.md", heading, port)
			wantSaid(t, said, "all vote: the list has begun", "it works")
		})
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	port, _ := quorumtest.FreePort(t)
	return port
}

// freeClusterPort also has the port of a cluster's bus free, which is 10000 above.
func freeClusterPort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := freePort(t)
		n, err := strconv.Atoi(port)
		must(t, err)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n+10_000))); err == nil {
			must(t, l.Close())
			return port
		}
	}
	t.Fatal("no port whose bus is free")
	return ""
}
