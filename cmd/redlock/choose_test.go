// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
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

// lastClusterPort is the last port that freeClusterPort tried, above the first. Processes begin at different places, and elsewhere than freePort.
var lastClusterPort atomic.Int64

func init() { lastClusterPort.Store(int64(os.Getpid())*64 + clusterPorts/2) }

// The port of a cluster's bus is 10000 above. No system gives one of both to a connection by itself: Linux begins with 32768.
const firstClusterPort, clusterPorts, toBus = 20_000, 2_768, 10_000

// freeClusterPort also has the port of the bus free.
func freeClusterPort(t testing.TB) string {
	t.Helper()
	free := func(port int64) bool {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10)))
		if err == nil {
			must(t, l.Close())
		}
		return err == nil
	}
	for range clusterPorts {
		if port := firstClusterPort + lastClusterPort.Add(1)%clusterPorts; free(port) && free(port+toBus) {
			return strconv.FormatInt(port, 10)
		}
	}
	t.Fatal("no port whose bus is free")
	return ""
}
