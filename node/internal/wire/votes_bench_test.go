// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// BenchmarkVotes measures what an acquire and its release cost an idle master, by how many
// of them go in one call. us-cpu/pair is the server's own CPU time. To compare two builds,
// run them in turn: the machine makes more difference than the scripts.
func BenchmarkVotes(b *testing.B) {
	needs.Redis(b)
	s, err := localredis.Start(context.Background(), localredis.Config{})
	noErr(b, err)
	b.Cleanup(func() { _ = s.Close() })
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	b.Cleanup(func() { _ = client.Close() })
	noErr(b, client.ScriptLoad(b.Context(), sources[votesSHA]).Err())
	for _, n := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprint("ops=", n), func(b *testing.B) {
			token, pairs, before := int64(0), 0, serverCPU(b, client)
			for b.Loop() {
				pipe := client.Pipeline()
				for range 50 {
					token++
					for _, kind := range []protocol.Kind{protocol.Acquire, protocol.Release} {
						pipe.Do(context.Background(), callOf(kind, n, token)...)
					}
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
				pairs += 50 * n
			}
			b.ReportMetric(float64((serverCPU(b, client)-before).Nanoseconds())/1e3/float64(pairs), "us-cpu/pair")
		})
	}
}

// callOf is a call of votes.lua with n ops, each of a lock of its own.
func callOf(kind protocol.Kind, n int, token int64) []any {
	var p Pipeline
	p.Reset(&Conn{Keys: KeysOf("", "")})
	for i := range n {
		p.Add(&protocol.Request{Kind: kind, Lock: protocol.NewLock(fmt.Sprint("lock", i), protocol.Plain), Holder: "11111111-1111-8111-8111-111111111111:1",
			TTL: 30 * time.Second, Token: token})
	}
	p.closeCall()
	return p.cmds[0].Args()
}

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func serverCPU(b *testing.B, client *redis.Client) time.Duration {
	for line := range strings.Lines(client.Info(b.Context(), "cpu").Val()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "used_cpu_user:"); ok {
			seconds, err := strconv.ParseFloat(text, 64)
			noErr(b, err)
			return time.Duration(seconds * float64(time.Second))
		}
	}
	b.Fatal("INFO cpu has no used_cpu_user")
	return 0
}
