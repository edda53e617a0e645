// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
)

// readRegisters reads each register of the run once. All clients have ended, so the last accepted write must be there. Without this read no
// later operation would show that it was lost.
func (r *run) readRegisters(ctx context.Context) error {
	if r.cfg.Client != "" {
		return nil // the registers are the program's own
	}
	c := redis.NewClient(&redis.Options{Addr: r.registerServer.Masters()[0].Addr(), MaxRetries: -1, ReadTimeout: time.Second, DisableIdentity: true})
	defer c.Close()
	for _, k := range r.cfg.Workloads {
		if k != workload.Fenced && k != workload.Unfenced {
			continue
		}
		op := history.Op{
			Kind: history.KindRead, Client: "harness.registers", Lock: string(k), Fenced: k == workload.Fenced, Outcome: history.OK, Call: history.Now(),
		}
		err := r.inTime(ctx, func() (_ bool, err error) {
			op.Value, err = c.Get(ctx, string(k)).Int64()
			return true, err
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("chaos: read the register %s: %w", k, err)
		}
		op.Return = history.Now()
		if err := r.history.Append(op); err != nil {
			return err
		}
	}
	return nil
}
