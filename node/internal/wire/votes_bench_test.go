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

// loaded is a connection to a master of its own that has the script votes.
func loaded(b *testing.B) *redis.Client {
	b.Helper()
	s, err := localredis.Start(context.Background(), localredis.Config{})
	noErr(b, err)
	b.Cleanup(func() { _ = s.Close() })
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	b.Cleanup(func() { _ = client.Close() })
	noErr(b, client.ScriptLoad(b.Context(), sources[votesSHA]).Err())
	return client
}

// BenchmarkVotes measures what an acquire and its release cost an idle master, by how many
// of them go in one call. us-cpu/pair is the server's own CPU time. To compare two builds,
// run them in turn: the machine makes more difference than the scripts.
func BenchmarkVotes(b *testing.B) {
	needs.Redis(b)
	client := loaded(b)
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

// BenchmarkWaited measures what a lock that is waited for costs an idle master: the release that hands it to the head of the queue, and the
// next caller's acquire, which queues. Together they come in one call, as where holds are brief, apart in one call each. us-cpu/lock
// is the server's own CPU time, us-evalsha/lock what INFO commandstats has.
func BenchmarkWaited(b *testing.B) {
	needs.Redis(b)
	client := loaded(b)
	const waiters = 4
	for i := range waiters { // a master hands nothing to a client that hears no messages
		hears := client.Subscribe(b.Context(), protocol.Wake(waiter(i)))
		b.Cleanup(func() { _ = hears.Close() })
		noErr(b, hears.Ping(b.Context()))
		go func() {
			for range hears.Channel() {
			}
		}()
	}
	for _, together := range []bool{true, false} {
		b.Run(map[bool]string{true: "together", false: "apart"}[together], func(b *testing.B) {
			noErr(b, client.FlushDB(b.Context()).Err())
			w := &waited{token: 1_700_000_000_000_000}
			pipe := client.Pipeline()
			for range waiters {
				w.call(pipe, w.acquire())
			}
			_, err := pipe.Exec(b.Context())
			noErr(b, err)
			noErr(b, client.ConfigResetStat(b.Context()).Err())
			locks, before := 0, serverCPU(b, client)
			for b.Loop() {
				for range 50 {
					release, acquire := w.release(), w.acquire()
					if together {
						w.call(pipe, release, acquire)
					} else {
						w.call(pipe, release)
						w.call(pipe, acquire)
					}
					locks++
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((serverCPU(b, client)-before).Nanoseconds())/1e3/float64(locks), "us-cpu/lock")
			stats := client.InfoMap(b.Context(), "commandstats").Val()["Commandstats"]
			b.ReportMetric(statOf(b, stats["cmdstat_evalsha"], "usec")/float64(locks), "us-evalsha/lock")
			if published := statOf(b, stats["cmdstat_publish"], "calls"); published != float64(locks) {
				b.Errorf("%v messages for %d locks", published, locks)
			}
		})
	}
}

func waiter(i int) string { return fmt.Sprintf("11111111-1111-8111-8111-%012d", i%4) }

// waited makes the ops of callers that hand one lock round.
type waited struct {
	token              int64
	released, acquired int
}

func (w *waited) release() protocol.Request {
	w.released++
	r := w.op(protocol.Release, w.released)
	r.Hand = protocol.Liveness
	return r
}

func (w *waited) acquire() protocol.Request {
	w.acquired++
	r := w.op(protocol.Acquire, w.acquired)
	r.Wait = &protocol.Wait{Ticket: r.Token, Liveness: protocol.Liveness}
	return r
}

func (w *waited) op(kind protocol.Kind, n int) protocol.Request {
	w.token += 1000
	return protocol.Request{Kind: kind, Lock: protocol.NewLock("lock", protocol.Plain), Holder: fmt.Sprintf("%s:%d", waiter(n), n),
		TTL: 30 * time.Second, Token: w.token, Start: time.Duration(w.token)}
}

// call adds a call of votes.lua with the ops to pipe.
func (w *waited) call(pipe redis.Pipeliner, ops ...protocol.Request) {
	var p Pipeline
	p.Reset(&Conn{Keys: KeysOf("", ""), MayHand: true})
	for i := range ops {
		p.Add(&ops[i])
	}
	p.closeCall()
	pipe.Do(context.Background(), p.cmds[0].Args()...)
}

// statOf reads one number of a line such as calls=4,usec=120.
func statOf(b *testing.B, line, name string) float64 {
	for word := range strings.SplitSeq(line, ",") {
		if text, ok := strings.CutPrefix(word, name+"="); ok {
			n, err := strconv.ParseFloat(text, 64)
			noErr(b, err)
			return n
		}
	}
	b.Fatalf("no %s in %q", name, line)
	return 0
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
