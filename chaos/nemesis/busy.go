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
	// busyScript runs until it is killed, and writes nothing. Should nobody be left who kills it, it ends by itself after ARGV[1] turns. It counts
	// turns because a script cannot tell the time on every server: older ones have no os.clock, and newer ones stop TIME while a script runs.
	busyScript = `for i = 1, ARGV[1] do end`
	// busyAfter is how many milliseconds a script may run before the server answers BUSY.
	busyAfter = "10"
	// busySetting is its name in the configuration. Redis 7 calls it busy-reply-threshold, and takes this name too.
	busySetting = "lua-time-limit"
)

// busyTurns is how many turns a second lasts at least: a server does some 200 to 500 million. A test has fewer.
var busyTurns = 1e9

// keepBusy runs a script for a TTL or more, and sees that the server answers BUSY. The script is killed when the fault is healed. The server puts
// the setting back by itself, in the transaction of the script: the harness may be killed meanwhile.
func (s *strike) keepBusy(ctx context.Context, c *redis.Client) (err error) {
	before, err := c.ConfigGet(ctx, busySetting).Result()
	if err != nil {
		return err
	}
	own := *c.Options() // c is closed when the fault is healed
	own.MaxRetries = -1 // none, which c says with 0
	admin := redis.NewClient(&own)
	over := make(chan error, 1) // what the script returned: it was killed, or the read timeout was over
	s.heal(func(ctx context.Context) error {
		defer admin.Close()
		return endScript(ctx, admin, over, before[busySetting])
	})
	turns := int64(busyTurns * (s.target.TTL + awaitTime).Seconds())
	go func() {
		_, err := admin.TxPipelined(context.WithoutCancel(ctx), func(p redis.Pipeliner) error {
			p.ConfigSet(ctx, busySetting, busyAfter)
			p.Eval(ctx, busyScript, nil, turns)
			p.ConfigSet(ctx, busySetting, before[busySetting])
			return nil
		})
		over <- err
	}()
	if err = awaitBusy(ctx, c); err == nil {
		s.last(s.between(10*time.Millisecond, s.target.TTL))
	} else if len(over) > 0 { // the server would not run it
		why := <-over
		over <- why
		err = errors.Join(err, why)
	}
	return err
}

// endScript kills the script and puts the setting back until the server has said that it did both: without that it is busy for ever. over has a
// value when the script is not sent any more; the server may have it and not have begun.
func endScript(ctx context.Context, c *redis.Client, over <-chan error, setting string) error {
	err := until(ctx, func() error {
		sent := len(over) > 0
		if err := c.ScriptKill(ctx).Err(); err != nil && !strings.HasPrefix(err.Error(), "NOTBUSY") {
			return err
		}
		if !sent {
			return errors.New("it is still being sent")
		}
		return c.ConfigSet(ctx, busySetting, setting).Err() // BUSY if the script began only now
	})
	if err != nil {
		return fmt.Errorf("the script may still keep the server busy: %w", err)
	}
	return nil
}

const awaitTime = time.Second

// awaitBusy waits until the server answers BUSY, for awaitTime at most.
func awaitBusy(ctx context.Context, c *redis.Client) error {
	answer := errors.New("it answers")
	for end := time.Now().Add(awaitTime); time.Now().Before(end) && ctx.Err() == nil; {
		if err := c.Ping(ctx).Err(); err != nil {
			if answer = err; strings.HasPrefix(err.Error(), "BUSY") {
				return nil
			}
		}
	}
	return fmt.Errorf("the script did not make the server busy: %w", answer)
}

// pauseClients pauses all clients of the server for up to a TTL. Nobody can end a pause, because the server makes CLIENT UNPAUSE wait too. So the
// fault lasts until the server answers, also after the end of the run. Half of healTime bounds it then.
func (s *strike) pauseClients(ctx context.Context, c *redis.Client) error {
	err := c.ClientPause(ctx, s.between(10*time.Millisecond, min(s.target.TTL, healTime/2))).Err()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTime)
	defer cancel()
	return errors.Join(err, until(ctx, func() error { return c.Ping(ctx).Err() }))
}
