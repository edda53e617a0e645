// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// MastersCPU is the masters' own getrusage, from INFO cpu.
func (b *Backend) MastersCPU(ctx context.Context) (sum time.Duration, ok bool) {
	for _, c := range b.Admins {
		info, err := c.Info(ctx, "cpu").Result()
		if err != nil {
			return 0, false
		}
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			s, err := strconv.ParseFloat(protocol.InfoField(info, name), 64)
			if err != nil {
				return 0, false
			}
			sum += time.Duration(s * float64(time.Second))
		}
	}
	return sum, len(b.Admins) > 0
}

// topLevel are the commands that a lock can only have sent itself. Redis counts what scripts call under the same names as what clients
// send, so of HSET or PUBLISH nobody can say; these are not allowed in scripts.
var topLevel = []string{
	"eval", "evalsha", "fcall", "eval_ro", "evalsha_ro", "fcall_ro",
	"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe",
}

// Commands is how many top-level commands all masters have executed; ok is false where they do not tell.
func (b *Backend) Commands(ctx context.Context) (sum int64, ok bool) {
	for _, c := range b.Admins {
		info, err := c.Info(ctx, "commandstats").Result()
		if err != nil {
			return 0, false
		}
		for _, name := range topLevel {
			sum += commandCalls(info, name)
		}
	}
	return sum, len(b.Admins) > 0
}

// commandCalls reads a line such as cmdstat_evalsha:calls=4,usec=120,...; a command that never came has none.
func commandCalls(info, name string) int64 {
	calls, _, _ := strings.Cut(protocol.InfoField(info, "cmdstat_"+name), ",")
	n, _ := strconv.ParseInt(strings.TrimPrefix(calls, "calls="), 10, 64)
	return n
}
