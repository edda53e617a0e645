// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node/lua"
)

var (
	// sources finds a script's text again when a master has forgotten it.
	sources = map[string]string{}

	checkSource = lua.Source("check")
	confirmSHA  = register(lua.Source("confirm"))
	extendSHA   = register(lua.Source("extend"))
	leaveSHA    = register(lua.Source("leave"))
	recordSHA   = register(lua.Source("record"))
	topUpSHA    = register(lua.Source("topup"))
	votesSHA    = register(lua.Source("votes"))
)

func register(source string) (sha string) {
	sha = redis.NewScript(source).Hash()
	sources[sha] = source
	return sha
}

// background is the context of every command: go-redis would only take a
// deadline from it, never a cancellation, and the deadlines are the lane's.
var background = context.Background()

// command is op as its call, on a connection whose gates are known. Acquires and
// releases are not its business: see votes.
func (c *conn) command(op *Request) redis.Cmder {
	l := op.Lock
	switch op.Kind {
	case Confirm:
		return redis.NewIntCmd(background, "evalsha", confirmSHA, 2, l.Name, &c.keys.record,
			l.Field(op.Holder), c.gate, l.counter, op.Token, l.mode)
	case Leave:
		return redis.NewIntCmd(background, "evalsha", leaveSHA, 2, l.Name, l.queue, op.Wait.Waiter, op.Wait.Ticket)
	case Beat:
		return redis.NewStatusCmd(background, "set", c.keys.alive+op.Holder, 1, "px", millis(op.TTL))
	case TopUp:
		return redis.NewIntCmd(background, "evalsha", topUpSHA, 2, l.Name, &c.keys.record,
			l.Field(op.Holder), millis(op.TTL), l.mode, max(op.Count, 1), c.gate, c.gateMending)
	case Extend:
		args := make([]any, 0, 7+4*len(op.Items))
		args = append(args, "evalsha", extendSHA, 1+len(op.Items), &c.keys.record)
		for i := range op.Items {
			args = append(args, op.Items[i].Lock.Name)
		}
		args = append(args, millis(op.TTL), c.gate, c.gateMending)
		for i := range op.Items {
			it := &op.Items[i]
			args = append(args, it.Lock.Field(it.Holder), it.Lock.mode, it.Count)
		}
		return redis.NewIntSliceCmd(background, args...)
	case ReadRecord:
		if len(op.Fields) == 0 {
			return redis.NewMapStringStringCmd(background, "hgetall", &c.keys.record)
		}
		args := []any{"hmget", &c.keys.record}
		for _, f := range op.Fields {
			args = append(args, f)
		}
		return redis.NewSliceCmd(background, args...)
	default: // SwapRecord
		args := make([]any, 0, 5+len(op.Swap.If)+len(op.Swap.Set))
		args = append(args, "evalsha", recordSHA, 1, &c.keys.record, len(op.Swap.If)/2)
		for _, f := range op.Swap.If {
			args = append(args, f)
		}
		for _, f := range op.Swap.Set {
			args = append(args, f)
		}
		return redis.NewSliceCmd(background, args...)
	}
}

// answer reads what came back for op.
func answer(op *Request, cmd redis.Cmder) Reply {
	if err := cmd.Err(); err != nil {
		return failure(op, err)
	}
	switch cmd := cmd.(type) {
	case *redis.IntCmd:
		var r Reply
		r.decode(op.Kind, cmd.Val())
		return r
	case *redis.IntSliceCmd:
		return decodeExtend(len(op.Items), cmd.Val())
	case *redis.StatusCmd:
		return Reply{Class: Granted}
	case *redis.SliceCmd:
		if op.Kind == SwapRecord {
			return decodeSwap(cmd.Val())
		}
		record := make(map[string]string)
		for i, v := range cmd.Val() {
			if s, ok := v.(string); ok && i < len(op.Fields) {
				record[op.Fields[i]] = s
			}
		}
		return Reply{Class: Granted, Record: record}
	case *redis.MapStringStringCmd:
		return Reply{Class: Granted, Record: cmd.Val()}
	}
	return Reply{Err: errReply}
}

// failure is the reply to an op that came to err.
func failure(op *Request, err error) Reply {
	err = stripOrigin(err)
	switch {
	case op.undoes() && wrongType(err):
		return Reply{Class: Absent} // a key of another type holds no vote
	case (op.Kind == ReadRecord || op.Kind == SwapRecord) && wrongType(err):
		return Reply{Class: Refused, Err: fmt.Errorf("%w: it is no hash; %s", ErrRecord, recordRemedy)}
	case op.Kind == Acquire && (halfDone(err) || redis.HasErrorPrefix(err, "REDLOCK UNDO")):
		return Reply{Err: err} // Unknown, so that it is released
	case elsewhere(err) != nil && op.undoes():
		return Reply{Err: err} // the next connection is to the master
	case elsewhere(err) != nil:
		return Reply{Class: NotSent, Err: err} // nothing was executed
	case isReply(err):
		return Reply{Class: Refused, Err: refusal(err)}
	}
	return Reply{Err: err}
}

// scriptOrigin matches what Redis before 7.0 puts ahead of the error of a command in a script:
// "ERR Error running script (call to f_...): @user_script:8: @user_script: 8: -".
var scriptOrigin = regexp.MustCompile(`^(ERR Error running script \(call to f_[0-9a-f]+\): )?(@user_script: ?[0-9]+: )+-?`)

// stripOrigin returns err with its code (READONLY, WRONGTYPE...) in front, as Redis 7.0
// and later word it. Redis before 7.0 puts what scriptOrigin matches ahead of the code.
func stripOrigin(err error) error {
	text := err.Error()
	if !isReply(err) || !strings.Contains(text, "@user_script") {
		return err
	}
	if ahead := scriptOrigin.FindString(text); ahead != "" {
		return scriptError(strings.TrimSpace(text[len(ahead):]))
	}
	return err
}

// decode reads the single integer of a script.
func (r *Reply) decode(kind Kind, n int64) {
	*r = Reply{}
	switch {
	case kind == Acquire && n > 0:
		r.Class, r.Token = Granted, n
	case kind != Acquire && n == 1:
		r.Class = Granted
	case (kind == Release || kind == Confirm || kind == Leave) && n == 0:
		r.Class = Absent
	case (kind == Acquire || kind == TopUp) && n <= 0:
		left := min(-1-n, int64(maxRemaining/time.Millisecond))
		r.Class, r.Remaining = Held, time.Duration(left)*time.Millisecond
	default: // it says nothing of what was executed
		r.Err = errReply
	}
}

// decodeSwap reads what record.lua returns.
func decodeSwap(vals []any) Reply {
	if len(vals) == 2 {
		done, isNumber := vals[0].(int64)
		gate, isText := vals[1].(string)
		switch {
		case isNumber && isText && done == 1:
			return Reply{Class: Granted}
		case isNumber && isText && done == 0:
			return Reply{Class: Refused, Err: &GateError{Got: gate}}
		}
	}
	return Reply{Err: errReply}
}

func decodeExtend(items int, vals []int64) Reply {
	if len(vals) != items {
		return Reply{Err: errReply}
	}
	intact := make([]bool, len(vals))
	for i, v := range vals {
		intact[i] = v == 1
	}
	return Reply{Class: Granted, Intact: intact}
}
