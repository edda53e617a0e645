// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
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
func (c *conn) command(op *protocol.Request) redis.Cmder {
	l := op.Lock
	switch op.Kind {
	case protocol.Confirm:
		return redis.NewIntCmd(background, "evalsha", confirmSHA, 2, l.Name, &c.keys.record,
			l.Field(op.Holder), c.gate, l.Counter, op.Token, l.ModeText)
	case protocol.Dequeue:
		return redis.NewIntCmd(background, "evalsha", leaveSHA, 2, l.Name, l.Queue, op.Wait.Waiter, op.Wait.Ticket)
	case protocol.Heartbeat:
		return redis.NewStatusCmd(background, "set", c.keys.alive+op.Holder, 1, "px", millis(op.TTL))
	case protocol.TopUp:
		return redis.NewIntCmd(background, "evalsha", topUpSHA, 2, l.Name, &c.keys.record,
			l.Field(op.Holder), millis(op.TTL), l.ModeText, max(op.Count, 1), c.gate, c.gateMending)
	case protocol.Extend:
		args := make([]any, 0, 7+4*len(op.Items))
		args = append(args, "evalsha", extendSHA, 1+len(op.Items), &c.keys.record)
		for i := range op.Items {
			args = append(args, op.Items[i].Lock.Name)
		}
		args = append(args, millis(op.TTL), c.gate, c.gateMending)
		for i := range op.Items {
			it := &op.Items[i]
			args = append(args, it.Lock.Field(it.Holder), it.Lock.ModeText, it.Count)
		}
		return redis.NewIntSliceCmd(background, args...)
	case protocol.ReadRecord:
		if len(op.Fields) == 0 {
			return redis.NewMapStringStringCmd(background, "hgetall", &c.keys.record)
		}
		args := []any{"hmget", &c.keys.record}
		for _, f := range op.Fields {
			args = append(args, f)
		}
		return redis.NewSliceCmd(background, args...)
	default: // SwapRecord
		args := make([]any, 0, 5+len(op.CompareAndSet.If)+len(op.CompareAndSet.Set))
		args = append(args, "evalsha", recordSHA, 1, &c.keys.record, len(op.CompareAndSet.If)/2)
		for _, f := range op.CompareAndSet.If {
			args = append(args, f)
		}
		for _, f := range op.CompareAndSet.Set {
			args = append(args, f)
		}
		return redis.NewSliceCmd(background, args...)
	}
}

// answer reads what came back for op.
func answer(op *protocol.Request, cmd redis.Cmder) protocol.Reply {
	if err := cmd.Err(); err != nil {
		return failure(op, err)
	}
	switch cmd := cmd.(type) {
	case *redis.IntCmd:
		var r protocol.Reply
		decode(&r, op.Kind, cmd.Val())
		return r
	case *redis.IntSliceCmd:
		return decodeExtend(len(op.Items), cmd.Val())
	case *redis.StatusCmd:
		return protocol.Reply{Outcome: protocol.Granted}
	case *redis.SliceCmd:
		if op.Kind == protocol.CompareAndSetRecord {
			return decodeSwap(cmd.Val())
		}
		record := make(map[string]string)
		for i, v := range cmd.Val() {
			if s, ok := v.(string); ok && i < len(op.Fields) {
				record[op.Fields[i]] = s
			}
		}
		return protocol.Reply{Outcome: protocol.Granted, Record: record}
	case *redis.MapStringStringCmd:
		return protocol.Reply{Outcome: protocol.Granted, Record: cmd.Val()}
	}
	return protocol.Reply{Err: errReply}
}

// failure is the reply to an op that came to err.
func failure(op *protocol.Request, err error) protocol.Reply {
	err = stripOrigin(err)
	switch {
	case undoes(op) && wrongType(err):
		return protocol.Reply{Outcome: protocol.Absent} // a key of another type holds no vote
	case (op.Kind == protocol.ReadRecord || op.Kind == protocol.CompareAndSetRecord) && wrongType(err):
		return protocol.Reply{Outcome: protocol.Refused, Err: fmt.Errorf("%w: it is no hash; %s", ErrRecord, recordRemedy)}
	case op.Kind == protocol.Acquire && (halfDone(err) || redis.HasErrorPrefix(err, "REDLOCK UNDO")):
		return protocol.Reply{Err: err} // Unknown, so that it is released
	case elsewhere(err) != nil && undoes(op):
		return protocol.Reply{Err: err} // the next connection is to the master
	case elsewhere(err) != nil:
		return protocol.Reply{Outcome: protocol.NotSent, Err: err} // nothing was executed
	case isReply(err):
		return protocol.Reply{Outcome: protocol.Refused, Err: refusal(err)}
	}
	return protocol.Reply{Err: err}
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
func decode(r *protocol.Reply, kind protocol.Kind, n int64) {
	*r = protocol.Reply{}
	switch {
	case kind == protocol.Acquire && n > 0:
		r.Outcome, r.Token = protocol.Granted, n
	case kind != protocol.Acquire && n == 1:
		r.Outcome = protocol.Granted
	case (kind == protocol.Release || kind == protocol.Confirm || kind == protocol.Dequeue) && n == 0:
		r.Outcome = protocol.Absent
	case (kind == protocol.Acquire || kind == protocol.TopUp) && n <= 0:
		left := min(-1-n, int64(maxRemaining/time.Millisecond))
		r.Outcome, r.Remaining = protocol.Held, time.Duration(left)*time.Millisecond
	default: // it says nothing of what was executed
		r.Err = errReply
	}
}

// decodeSwap reads what record.lua returns.
func decodeSwap(vals []any) protocol.Reply {
	if len(vals) == 2 {
		done, isNumber := vals[0].(int64)
		gate, isText := vals[1].(string)
		switch {
		case isNumber && isText && done == 1:
			return protocol.Reply{Outcome: protocol.Granted}
		case isNumber && isText && done == 0:
			return protocol.Reply{Outcome: protocol.Refused, Err: &protocol.RecordStateError{Got: gate}}
		}
	}
	return protocol.Reply{Err: errReply}
}

func decodeExtend(items int, vals []int64) protocol.Reply {
	if len(vals) != items {
		return protocol.Reply{Err: errReply}
	}
	intact := make([]bool, len(vals))
	for i, v := range vals {
		intact[i] = v == 1
	}
	return protocol.Reply{Outcome: protocol.Granted, Intact: intact}
}

const recordRemedy = "if nothing else uses the key " + protocol.RecordKey + " (in a cluster " + protocol.RecordKey + ":{tag}), delete it: the master then recovers as after a restart"

// refusal gives a script's own errors their type.
func refusal(err error) error {
	switch text, ok := strings.CutPrefix(err.Error(), "REDLOCK "); {
	case !ok:
		return explain(err)
	case strings.HasPrefix(text, "GATE "), text == "GATE":
		return &protocol.RecordStateError{Got: strings.TrimPrefix(text[4:], " ")}
	default:
		return fmt.Errorf("%w: %s, and a counter must be a number from 0 to below 2^53; %s", ErrRecord, text, recordRemedy)
	}
}
