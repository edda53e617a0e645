// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"time"
)

// Run has d take one step after the other. next judges what a step has seen: how long to wait before the next one, or that there is none,
// and with which error. Run returns that error, or ctx.Err() when ctx ends.
func Run(ctx context.Context, d *Driver, next func(*Outcome) (pause time.Duration, done bool, err error)) error {
	for {
		out := d.Step(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		pause, done, err := next(&out)
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
