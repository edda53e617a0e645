// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/lua"
)

var (
	// sources has each script's text by its SHA-1.
	sources = map[string]string{}

	checkSource = lua.Source("check")
	nothingSHA  = register("return 0")
	announceSHA = register(lua.Source("announce"))
	adoptSHA    = register(lua.Source("adopt"))
	confirmSHA  = register(lua.Source("confirm"))
	extendSHA   = register(lua.Source("extend"))
	locksSHA    = register(lua.Source("locks"))
	inspectSHA  = register(lua.Source("inspect"))
	recordSHA   = register(lua.Source("record"))
	topUpSHA    = register(lua.Source("topup"))
	votesSHA    = register(lua.Source("votes"))
)

func register(source string) (sha string) {
	sha = redis.NewScript(source).Hash()
	sources[sha] = source
	return sha
}

// Sources returns the texts of all scripts that a connection must load.
func Sources() []string { return slices.Collect(maps.Values(sources)) }

// Checked is a call of check.lua, and its answer.
type Checked struct {
	check *redis.Cmd
	named *redis.Cmd // of a script that does nothing, by its SHA-1: no script can try EVALSHA
}

// NewCheck returns the call, which is not sent.
func NewCheck(keys *Keys) *Checked {
	args := append([]any{"eval", checkSource, 1, keys.check.Key}, keys.checkArgs()...)
	return &Checked{redis.NewCmd(background, args...), redis.NewCmd(background, "evalsha", nothingSHA, 0)}
}

// AddTo adds the call to pipe.
func (c *Checked) AddTo(ctx context.Context, pipe redis.Pipeliner) *Checked {
	_ = pipe.Process(ctx, c.check)
	_ = pipe.Process(ctx, c.named)
	return c
}

// Rights returns the rights that the user lacks for read locks, and an ErrNoWrites if the master refuses to write. err is what the
// user lacks for every lock, or why that is not known.
func (c *Checked) Rights() (forReaders []string, refusal, err error) {
	if err := c.check.Err(); err != nil {
		return nil, nil, err
	}
	if err := c.named.Err(); denies(err) {
		return nil, nil, err
	}
	missing, forReaders, refusal := rights(c.check.Val())
	if len(missing) > 0 {
		err = fmt.Errorf("%w %s", ErrRights, strings.Join(missing, ", "))
	}
	return forReaders, refusal, err
}

// background is the context of every command. go-redis takes only a deadline from a
// context, and no cancellation; the deadlines are those of the lane's connection.
var background = context.Background()

// stampOf is the value of the client's sign of life with that stamp.
func (c *Conn) stampOf(stamp *time.Duration) any {
	if c.Deaf {
		return strconv.FormatInt(int64(*stamp), 10) + protocol.Deaf
	}
	return stamp
}

// command returns the Redis command for op, on a connection whose record states are
// known. It does not handle Acquire and Release: see votes.
func (c *Conn) command(op *protocol.Request) redis.Cmder {
	l := op.Lock
	switch op.Kind {
	case protocol.Confirm:
		return redis.NewIntCmd(background, "evalsha", confirmSHA, 3, l.Key, &c.Keys.Record, l.Rest,
			l.Field(op.Holder), c.Voting, l.Counter, op.Token, l.ModeText, op.Rest.Milliseconds())
	case protocol.Adopt:
		voted, channel := op.Voted, ""
		if op.Passed {
			voted, channel = c.Voting, l.Channel
		}
		return redis.NewIntCmd(background, "evalsha", adoptSHA, 2, l.Key, &c.Keys.Record,
			l.Field(op.Holder), l.Field(op.From), millis(op.TTL), c.Voting, voted, l.Counter, op.Token, channel)
	case protocol.Heartbeat:
		return redis.NewStatusCmd(background, "set", c.Keys.alive+op.Holder, c.stampOf(&op.Start), "px", millis(op.TTL))
	case protocol.Introduce:
		return redis.NewStatusCmd(background, "set", c.Keys.owner+op.Holder, op.Owner, "px", millis(op.TTL))
	case protocol.Dequeue:
		return redis.NewIntCmd(background, "zrem", l.Queue, op.Place)
	case protocol.Announce:
		return redis.NewIntCmd(background, "evalsha", announceSHA, 2, l.Key, l.AnnouncementKey(),
			l.Field(op.Holder), millis(op.TTL), op.Announce, l.Observed())
	case protocol.Bar:
		return redis.NewStatusCmd(background, "set", l.BarKey(op.Holder), 1, "px", millis(op.TTL))
	case protocol.ListLocks:
		return redis.NewSliceCmd(background, "evalsha", locksSHA, 1, &c.Keys.Record, op.Cursor, op.Prefix)
	case protocol.Inspect:
		return redis.NewSliceCmd(background, "evalsha", inspectSHA, 5, l.Key, &c.Keys.Record, l.AnnouncementKey(), l.Queue, l.Rest,
			c.Voting, l.Counter)
	case protocol.TopUp:
		return redis.NewIntCmd(background, "evalsha", topUpSHA, 4, l.Key, &c.Keys.Record, l.BarKey(op.Holder), l.Queue,
			l.Field(op.Holder), millis(op.TTL), l.ModeText, max(op.Count, 1), c.Voting, c.Quarantined)
	case protocol.Extend:
		return redis.NewIntSliceCmd(background, c.extendArgs(op)...)
	case protocol.ReadRecord:
		if len(op.Fields) == 0 {
			return redis.NewMapStringStringCmd(background, "hgetall", &c.Keys.Record)
		}
		args := []any{"hmget", &c.Keys.Record}
		for _, f := range op.Fields {
			args = append(args, f)
		}
		return redis.NewSliceCmd(background, args...)
	default: // CompareAndSetRecord
		set := op.CompareAndSet
		args := make([]any, 0, 5+len(set.If)+len(set.Set))
		args = append(args, "evalsha", recordSHA, 1, &c.Keys.Record, len(set.If)/2)
		for _, f := range set.If {
			args = append(args, f)
		}
		for _, f := range set.Set {
			args = append(args, f)
		}
		return redis.NewSliceCmd(background, args...)
	}
}

// millis is a TTL in the milliseconds that the master gets. It is 1 or more, because a TTL
// of 0 would delete the key.
func millis(d time.Duration) int64 { return max(d.Milliseconds(), 1) }
