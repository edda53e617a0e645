// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/acquire.lua
	acquireSource string
	//go:embed lua/check.lua
	checkSource string
	//go:embed lua/confirm.lua
	confirmSource string
	//go:embed lua/extend.lua
	extendSource string
	//go:embed lua/leave.lua
	leaveSource string
	//go:embed lua/record.lua
	recordSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/topup.lua
	topUpSource string

	// sources finds a script's text again when a master has forgotten it.
	sources = map[string]string{}

	acquireSHA = register(acquireSource)
	confirmSHA = register(confirmSource)
	extendSHA  = register(extendSource)
	leaveSHA   = register(leaveSource)
	recordSHA  = register(recordSource)
	releaseSHA = register(releaseSource)
	topUpSHA   = register(topUpSource)
)

// checkKey is the key and the channel that check.lua works on.
const checkKey = "redlock:check"

func register(source string) (sha string) {
	sha = redis.NewScript(source).Hash()
	sources[sha] = source
	return sha
}

// background is the context of every command: go-redis would only take a
// deadline from it, never a cancellation, and the deadlines are the lane's.
var background = context.Background()

// calls are the commands of the three ops that every lock and unlock sends, made
// once for a lane and filled in anew for each pipeline: their arguments are
// pointers, which go-redis follows when it writes, so nothing is allocated.
type calls struct {
	acquires, releases []*redis.IntCmd
	contends           []*redis.Cmd
	// used of each in the present pipeline
	acquired, released, contended int
}

func (c *calls) reset() { c.acquired, c.released, c.contended = 0, 0, 0 }

func (c *calls) acquire() *redis.IntCmd {
	if c.acquired == len(c.acquires) {
		c.acquires = append(c.acquires, redis.NewIntCmd(background, make([]any, 13)...))
	}
	c.acquired++
	cmd := c.acquires[c.acquired-1]
	cmd.SetErr(nil)
	return cmd
}

func (c *calls) contend() *redis.Cmd {
	if c.contended == len(c.contends) {
		c.contends = append(c.contends, redis.NewCmd(background, make([]any, 17)...))
	}
	c.contended++
	cmd := c.contends[c.contended-1]
	cmd.SetErr(nil)
	return cmd
}

func (c *calls) release() *redis.IntCmd {
	if c.released == len(c.releases) {
		c.releases = append(c.releases, redis.NewIntCmd(background, make([]any, 8)...))
	}
	c.released++
	cmd := c.releases[c.released-1]
	cmd.SetErr(nil)
	return cmd
}

// unfair is an op's barging flag as scripts take it.
func (w *Wait) unfair() int {
	if w.Unfair {
		return 1
	}
	return 0
}

// command is op as its call, on a connection whose gates are known.
func (c *conn) command(calls *calls, op *Op) redis.Cmder {
	l := op.Lock
	switch op.Kind {
	case Acquire:
		op.millis = op.TTL.Milliseconds()
		op.field = l.Field(op.Holder)
		if op.Wait == nil {
			cmd := calls.acquire()
			acquireArgs(cmd.Args(), c, op)
			return cmd
		}
		cmd := calls.contend()
		args := cmd.Args()
		acquireArgs(args, c, op)
		args[13], args[14] = &op.Wait.Waiter, &op.Wait.Ticket
		args[15], args[16] = op.Wait.Liveness.Milliseconds(), op.Wait.unfair()
		return cmd
	case Release:
		op.field = l.Field(op.Holder)
		cmd := calls.release()
		args := cmd.Args()
		args[0], args[1], args[2] = "evalsha", releaseSHA, 2
		args[3], args[4], args[5], args[6], args[7] = &l.Name, &l.queue, &op.field, &l.mode, &l.Channel
		return cmd
	case Confirm:
		return redis.NewIntCmd(background, "evalsha", confirmSHA, 2, l.Name, RecordKey,
			l.Field(op.Holder), c.gate, l.counter, op.Token, l.mode)
	case Leave:
		return redis.NewIntCmd(background, "evalsha", leaveSHA, 2, l.Name, l.queue, op.Wait.Waiter)
	case Beat:
		return redis.NewStatusCmd(background, "set", alive(op.Holder), 1, "px", op.TTL.Milliseconds())
	case TopUp:
		return redis.NewIntCmd(background, "evalsha", topUpSHA, 2, l.Name, RecordKey,
			l.Field(op.Holder), op.TTL.Milliseconds(), l.mode, max(op.Count, 1), c.gate, c.gateMending)
	case Extend:
		args := make([]any, 0, 7+4*len(op.Items))
		args = append(args, "evalsha", extendSHA, 1+len(op.Items), RecordKey)
		for i := range op.Items {
			args = append(args, op.Items[i].Lock.Name)
		}
		args = append(args, op.TTL.Milliseconds(), c.gate, c.gateMending)
		for i := range op.Items {
			it := &op.Items[i]
			args = append(args, it.Lock.Field(it.Holder), it.Lock.mode, it.Count)
		}
		return redis.NewIntSliceCmd(background, args...)
	case ReadRecord:
		return redis.NewMapStringStringCmd(background, "hgetall", RecordKey)
	default: // SwapRecord
		args := make([]any, 0, 6+len(op.Swap.Fields))
		args = append(args, "evalsha", recordSHA, 1, RecordKey, op.Swap.From.String(), op.Swap.To.String())
		for _, f := range op.Swap.Fields {
			args = append(args, f)
		}
		return redis.NewCmd(background, args...)
	}
}

// acquireArgs fills in what both forms of acquire.lua's call begin with.
func acquireArgs(args []any, c *conn, op *Op) {
	l := op.Lock
	args[0], args[1], args[2] = "evalsha", acquireSHA, 3
	args[3], args[4], args[5] = &l.Name, RecordKey, &l.queue
	args[6], args[7], args[8], args[9] = &op.field, &op.millis, &c.gate, &l.counter
	args[10], args[11], args[12] = &op.Token, &l.mode, &op.Over
}

// answer reads what came back for op; cmd is nil when op was not sent.
func answer(op *Op, cmd redis.Cmder) Reply {
	if cmd == nil {
		return Reply{Unsent: !op.owed(), Err: ErrLate}
	}
	if err := cmd.Err(); err != nil {
		switch {
		case op.owed() && wrongType(err):
			return Reply{Class: Absent} // a key of another type holds no vote
		case (op.Kind == ReadRecord || op.Kind == SwapRecord) && wrongType(err):
			return Reply{Class: Refused, Err: fmt.Errorf("%w: it is no hash; %s", ErrRecord, recordRemedy)}
		case isReply(err):
			return Reply{Class: Refused, Err: refusal(err)}
		default:
			return Reply{Err: err}
		}
	}
	switch cmd := cmd.(type) {
	case *redis.IntCmd:
		return decode(op.Kind, cmd.Val())
	case *redis.IntSliceCmd:
		return decodeExtend(len(op.Items), cmd.Val())
	case *redis.StatusCmd:
		return Reply{Class: Granted}
	case *redis.MapStringStringCmd:
		return Reply{Class: Granted, Record: cmd.Val()}
	case *redis.Cmd:
		if op.Kind == Acquire {
			return decodeWaiting(cmd.Val())
		}
		if got, ok := cmd.Val().(string); ok && got != op.Swap.To.String() {
			return Reply{Class: Refused, Err: &GateError{Got: got}}
		} else if ok {
			return Reply{Class: Granted}
		}
	}
	return Reply{Class: Refused, Err: errReply}
}

// decode reads the single integer of a script.
func decode(kind Kind, n int64) Reply {
	switch {
	case kind == Acquire && n > 0:
		return Reply{Class: Granted, Token: n}
	case kind != Acquire && n == 1:
		return Reply{Class: Granted}
	case (kind == Release || kind == Confirm || kind == Leave) && n == 0:
		return Reply{Class: Absent}
	case (kind == Acquire || kind == TopUp) && n <= 0:
		left := min(-1-n, int64(maxRemaining/time.Millisecond))
		return Reply{Class: Held, Remaining: time.Duration(left) * time.Millisecond}
	}
	return Reply{Class: Refused, Err: errReply}
}

// decodeWaiting reads what acquire.lua tells one that waits: an integer when it
// was granted, or four.
func decodeWaiting(val any) Reply {
	if n, ok := val.(int64); ok && n > 0 {
		return Reply{Class: Granted, Token: n}
	}
	vals, _ := val.([]any)
	if len(vals) != 4 {
		return Reply{Class: Refused, Err: errReply}
	}
	var n [4]int64
	for i, v := range vals {
		var ok bool
		if n[i], ok = v.(int64); !ok || i > 0 && n[i] < 0 || i == 0 && n[i] > 0 {
			return Reply{Class: Refused, Err: errReply}
		}
	}
	r := decode(Acquire, n[0])
	r.Ticket, r.Ahead, r.Stranger = n[1], int(n[2]), n[3] == 1
	return r
}

func decodeExtend(items int, vals []int64) Reply {
	if len(vals) != items {
		return Reply{Class: Refused, Err: errReply}
	}
	intact := make([]bool, len(vals))
	for i, v := range vals {
		intact[i] = v == 1
	}
	return Reply{Class: Granted, Intact: intact}
}
