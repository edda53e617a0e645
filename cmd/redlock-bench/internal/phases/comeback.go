// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// lookTime is how often the returned master is looked at.
const lookTime = 5 * time.Millisecond

// comeback starts a master again and watches when its votes count.
//
// It looks on the master itself, whose word is exact: a script gives a vote only when the record lets it, and a vote is a key of the lock's
// name. MONITOR would cost the master more than the load, and a count of its HSET calls would count writes of the record too. One look is two
// commands in one round trip.
type comeback struct {
	server *localredis.Server
	admin  *redis.Client
	names  []string
	done   chan struct{} // closed at the end; the rest is to be read after it

	up            time.Time // when it answered again; zero: it did not
	voting, votes *float64  // seconds from when it answered again; nil: not seen
	err           error
}

// watch returns when the votes have counted for a while, or were not seen for limit.
func (c *comeback) watch(ctx context.Context, limit time.Duration) {
	defer close(c.done)
	if c.err = c.server.Restart(ctx); c.err != nil {
		return
	}
	c.up = time.Now()
	since := func() *float64 {
		s := time.Since(c.up).Seconds()
		return &s
	}
	var incarnation string
	for ctx.Err() == nil && time.Since(c.up) < limit && c.votes == nil {
		if incarnation == "" {
			incarnation, _ = c.incarnation(ctx) // the server has just answered PING: it will again
		} else if votes, keys, err := c.look(ctx, incarnation); err == nil && votes {
			if c.voting == nil {
				c.voting = since()
			}
			if keys > 0 {
				c.votes = since()
			}
		}
		pause(ctx, lookTime)
	}
	if c.votes != nil {
		pause(ctx, settleTime)
	}
}

// incarnation is the master's, as its record has it once it votes.
func (c *comeback) incarnation(ctx context.Context) (string, error) {
	info, err := c.admin.Info(ctx).Result()
	if err != nil {
		return "", err
	}
	state, err := c.admin.HGet(ctx, protocol.RecordKey, membership.FieldState).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", err
	}
	return protocol.ReadIdentity(info, state).Incarnation(), nil
}

// look is whether the master's record lets it vote, and how many locks it has a vote for.
func (c *comeback) look(ctx context.Context, incarnation string) (votes bool, keys int64, err error) {
	pipe := c.admin.Pipeline()
	state, exists := pipe.HGet(ctx, protocol.RecordKey, "state"), pipe.Exists(ctx, c.names...)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return false, 0, err
	}
	rs, err := membership.ParseRecordState(state.Val())
	return rs.Phase == membership.Voting && rs.Incarnation == incarnation, exists.Val(), err
}
