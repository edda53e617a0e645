// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

// extendHeader and extendWords are HEADER and STRIDE of extend.lua: the words of ARGV before the locks, and of a lock.
const extendHeader, extendWords = 3, 3

// unsaid is what stands for the answer to an item that the user may not touch. No script returns it.
const unsaid = -1

func (c *Conn) extendArgs(op *protocol.Request) []any {
	args := make([]any, 0, 4+extendHeader+(1+extendWords)*len(op.Items))
	args = append(args, "evalsha", extendSHA, 1+len(op.Items), &c.Keys.Record)
	for i := range op.Items {
		args = append(args, op.Items[i].Lock.Key)
	}
	args = append(args, millis(op.TTL), c.Voting, c.Quarantined)
	for i := range op.Items {
		it := &op.Items[i]
		args = append(args, it.Lock.Field(it.Holder), it.Lock.ModeText, it.Count)
	}
	return args
}

// extendApart returns the arguments of calls of extend.lua with one lock each, from those of a call with several.
func extendApart(args []any) (calls [][]any) {
	keys, rest := args[4:3+args[2].(int)], args[3+args[2].(int):]
	for i := range keys {
		at := extendHeader + extendWords*i
		calls = append(calls, slices.Concat([]any{args[0], args[1], 2, args[3], keys[i]}, rest[:extendHeader], rest[at:at+extendWords]))
	}
	return calls
}

// joinExtends makes what extendApart's calls answered the answer of the call that they stand for. An error that is about
// more than one lock is the answer to all, and so is a denial of all.
func joinExtends(call *redis.IntSliceCmd, apart []redis.Cmder) {
	var answers []int64
	said := false
	for _, cmd := range apart {
		switch err := cmd.Err(); {
		case err == nil:
			answers, said = append(answers, cmd.(*redis.IntSliceCmd).Val()...), true
		case denies(err):
			answers = append(answers, unsaid)
		default:
			call.SetErr(err)
			return
		}
	}
	if said {
		call.SetErr(nil)
		call.SetVal(answers)
	}
}

// decodeExtend reads what extend.lua returns, or what joinExtends has joined.
func decodeExtend(items int, vals []int64) protocol.Reply {
	if len(vals) != items {
		return protocol.Reply{Err: errReply}
	}
	r := protocol.Reply{Outcome: protocol.Granted, Intact: make([]bool, items)}
	for i, v := range vals {
		r.Intact[i] = v == 1
		if v == unsaid {
			if r.Denied == nil {
				r.Denied = make([]bool, items)
			}
			r.Denied[i] = true
		}
	}
	return r
}

// denies says whether with err the master told that the user may not do something.
func denies(err error) bool { return IsReply(err) && errors.Is(Explain(err), protocol.ErrDenied) }
