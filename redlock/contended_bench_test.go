// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redlock_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// BenchmarkContended is one lock that 64 callers of four clients want, over five real masters, by how long each holds it. It reports
// what a lock costs: the clients' CPU, the CPU of a master, and of that master the time and the commands of its scripts. These stand a busy
// machine better than how long a lock takes. redlock-bench contention measures that, beside its limit.
func BenchmarkContended(b *testing.B) {
	needs.Redis(b)
	for _, hold := range []time.Duration{0, time.Millisecond} {
		b.Run(fmt.Sprint("hold=", hold), func(b *testing.B) {
			ms := startMasters(b, 5, localredis.Config{})
			noErr(b, ms.begin().Close())
			var locks []redlock.Locker
			for range 4 {
				locks = append(locks, openAt(b, ms.urls(), redlock.WithNodeTimeout(time.Second)).Mutex("hot"))
			}
			contend := func(n int) {
				var next atomic.Int64
				var wg sync.WaitGroup
				for i := range 64 {
					wg.Go(func() {
						for next.Add(1) <= int64(n) {
							lease, err := locks[i%len(locks)].Lock(context.Background())
							if err == nil {
								time.Sleep(hold)
								err = lease.Unlock(context.Background())
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			}
			contend(256) // they connect and subscribe
			b.ReportAllocs()
			for i := range ms.direct {
				noErr(b, ms.direct[i].ConfigResetStat(b.Context()).Err())
			}
			clients, master := ownCPU(b), ms.cpu(b)
			b.ResetTimer()
			contend(b.N)
			b.StopTimer()
			each := func(total float64, unit string) { b.ReportMetric(total/float64(b.N), unit) }
			each((ownCPU(b)-clients).Seconds()*1e6, "us-client/lock")
			each((ms.cpu(b)-master).Seconds()*1e6/float64(len(ms.direct)), "us-master/lock")
			calls, usec, evalsha := 0.0, 0.0, 0.0
			for i := range ms.direct {
				for _, stat := range statLine.FindAllStringSubmatch(ms.stats(i), -1) {
					n, _ := strconv.ParseFloat(stat[2], 64)
					switch stat[1] {
					case "evalsha":
						evalsha += n
						took, _ := strconv.ParseFloat(stat[3], 64)
						usec += took
					case "time", "info", "config|resetstat":
					default:
						calls += n
					}
				}
			}
			each(usec/float64(len(ms.direct)), "us-evalsha/lock")
			each(evalsha/float64(len(ms.direct)), "evalsha/lock")
			each(calls/float64(len(ms.direct)), "lua-commands/lock")
		})
	}
}

// statLine is a line of INFO commandstats: the command, how often it was called, and for how long.
var statLine = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+),usec=(\d+)`)

// ownCPU is the CPU that this process has used.
func ownCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	noErr(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpu is the CPU that all masters have used.
func (ms *masters) cpu(b *testing.B) (all time.Duration) {
	for _, c := range ms.direct {
		info, err := c.Info(b.Context(), "cpu").Result()
		noErr(b, err)
		for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
			seconds, err := strconv.ParseFloat(protocol.InfoField(info, field), 64)
			noErr(b, err)
			all += time.Duration(seconds * float64(time.Second))
		}
	}
	return all
}
