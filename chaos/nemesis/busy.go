// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// busyScript runs until it is killed, and writes nothing.
	busyScript = `while true do end`
	// busyAfter is how many milliseconds a script may run before the server answers BUSY.
	busyAfter = "10"
	// busySetting is its name in the configuration. Redis 7 calls it busy-reply-threshold, and takes this name too.
	busySetting = "lua-time-limit"
)

// keepBusy runs a script that does not end, sees that the server answers BUSY, and kills the script after a while.
func (s *strike) keepBusy(ctx context.Context, c *redis.Client) (err error) {
	free := context.WithoutCancel(ctx)
	before, err := c.ConfigGet(ctx, busySetting).Result()
	if err != nil {
		return err
	}
	if err := c.ConfigSet(ctx, busySetting, busyAfter).Err(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Eval(free, busyScript, nil).Err() }() // returns when the script is killed, or after the read timeout of c
	if err = awaitBusy(ctx, c); err == nil {
		s.last(s.between(10*time.Millisecond, s.target.TTL))
	}
	return errors.Join(err, killScript(free, c), ignoreKilled(<-ended), c.ConfigSet(free, busySetting, before[busySetting]).Err())
}

// awaitBusy waits until the server answers BUSY, for a second at most.
func awaitBusy(ctx context.Context, c *redis.Client) error {
	answer := errors.New("it answers")
	for end := time.Now().Add(time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		if err := c.Ping(ctx).Err(); err != nil {
			if answer = err; strings.HasPrefix(err.Error(), "BUSY") {
				return nil
			}
		}
	}
	return fmt.Errorf("the script did not make the server busy: %w", answer)
}

// killScript ends a script that has not written.
func killScript(ctx context.Context, c *redis.Client) error {
	err := c.ScriptKill(ctx).Err()
	if err != nil && strings.HasPrefix(err.Error(), "NOTBUSY") {
		return nil
	}
	return err
}

// ignoreKilled drops the error that a killed script returns, and that of a client that did not wait for it.
func ignoreKilled(err error) error {
	if err != nil && (strings.Contains(err.Error(), "killed by user") || strings.Contains(err.Error(), "timeout")) {
		return nil
	}
	return err
}
