// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

// maxVotes is how many ops one call of votes.lua takes. While the script runs, the master
// answers no other client.
const maxVotes = 64

// loneOpKeys is the number of keys of a call with one op: lock, queue and record. The
// script answers such a call without an array.
const loneOpKeys = 3

// votes gathers consecutive acquires and releases into one call of votes.lua. The
// arguments are pointers into the ops, which go-redis follows when it writes them, so that
// few arguments are allocated.
type votes struct {
	n, acquires         int
	keys, ops           []any
	counters, proposals []any          // of the ops that may raise a counter
	ttl                 time.Duration  // of the acquires
	liveness            time.Duration  // of the waiters, and of a vote that is handed; 0 while there are none
	stamp               *time.Duration // when the last op of a waiter was begun; nil while there are none
	ttlArg, livenessArg boxed
	raisesArg           boxed
	// Invariant: the acquires of a call are of different locks with different counters.
	// The script raises those of free locks together. A master's clock stands still while a
	// script runs, so it would give two acquires of one lock the same ticket. A release that
	// may hand is exempt: it reads its counter again if the call has raised any.
	taken [(protocol.Counters + 63) / 64]uint64
}

// boxed is a number as an argument. It allocates only when the number changes.
type boxed struct {
	n   int64
	arg any
}

func (b *boxed) of(n int64) any {
	if b.arg == nil || b.n != n {
		b.n, b.arg = n, n
	}
	return b.arg
}

// Arguments that many calls share. As variables they are allocated once.
var (
	votesCall                                any = votesSHA
	actAcquire, actBarge, actRetry, actQueue any = "acquire", "barge", "retry", "queue"
	actAgain, actOust, actJoin               any = "again", "oust", "join"
	actRelease, actLeave, actHand, empty     any = "release", "leave", "hand", ""
)

// fits reports whether op can join the call that is being gathered.
func (v *votes) fits(op *protocol.Request) bool {
	if liveness := livenessOf(op); v.n == maxVotes || liveness != 0 && v.liveness != 0 && v.liveness != liveness {
		return false
	}
	return op.Kind == protocol.Release || v.acquires == 0 ||
		v.ttl == op.TTL && v.taken[op.Lock.CounterIndex/64]&(1<<(op.Lock.CounterIndex%64)) == 0
}

// livenessOf is the TTL of the sign of life that op sets, or of the vote that it may hand; 0:
// neither.
func livenessOf(op *protocol.Request) time.Duration {
	if op.Wait != nil {
		return op.Wait.Liveness
	}
	return op.Hand
}

// add appends op to the call: its two keys, its four words in votes.lua's order, and the
// counter and the proposed token of an op that may raise the counter. mayHand says whether the
// master may hand its vote to a waiter.
func (v *votes) add(op *protocol.Request, mayHand bool) {
	l := op.Lock
	v.n++
	v.keys = append(v.keys, &l.Key, &l.Queue)
	holder, word := &op.Holder, empty
	if l.Mode == protocol.Write {
		field := l.Field(op.Holder)
		holder = &field
	}
	if liveness := livenessOf(op); liveness != 0 {
		v.liveness = liveness
	}
	act := actOf(op, mayHand)
	switch {
	case act == actJoin:
		word = &op.JoinWrite
	case op.Wait != nil:
		word = &op.Wait.Ticket
		if v.stamp == nil || *v.stamp < op.Start {
			v.stamp = &op.Start
		}
	}
	if op.Lift != "" {
		word = &op.Lift
	}
	v.ops = append(v.ops, act, &l.ModeText, holder, word)
	if op.Kind == protocol.Acquire {
		v.acquires++
		v.ttl = op.TTL
		v.taken[l.CounterIndex/64] |= 1 << (l.CounterIndex % 64)
	} else if act != actHand {
		return
	}
	v.counters = append(v.counters, &l.Counter)
	v.proposals = append(v.proposals, &op.Token)
}

// actOf is the word for op in a call of votes.lua.
func actOf(op *protocol.Request, mayHand bool) any {
	switch {
	case op.Kind == protocol.Release && op.Leaves:
		return actLeave
	case op.Kind == protocol.Release && op.Hand != 0 && mayHand:
		return actHand
	case op.Kind == protocol.Release:
		return actRelease
	case op.Wait == nil && op.Lock.Mode == protocol.Read && op.JoinWrite != "":
		return actJoin
	case op.Wait == nil:
		return actAcquire
	case op.Wait.Again:
		return actAgain
	case op.Wait.Only:
		return actQueue
	case op.Wait.Oust:
		return actOust
	case op.Wait.Unfair:
		return actBarge
	case op.Wait.Retry:
		return actRetry
	}
	return actAcquire
}

// call appends the arguments of the call to args, and starts the next call.
func (v *votes) call(args []any, c *Conn) []any {
	args = append(args, "evalsha", votesCall, len(v.keys)+1)
	args = append(args, v.keys...)
	stamp := empty
	if v.stamp != nil {
		stamp = c.stampOf(v.stamp)
	}
	args = append(args, &c.Keys.Record, v.raisesArg.of(int64(len(v.counters))), &c.Voting, v.ttlArg.of(millis(v.ttl)),
		v.livenessArg.of(millis(v.liveness)), stamp)
	args = append(args, v.counters...)
	args = append(args, v.proposals...)
	args = append(args, v.ops...)
	for _, words := range []*[]any{&v.keys, &v.ops, &v.counters, &v.proposals} {
		clear(*words)
		*words = (*words)[:0]
	}
	v.n, v.acquires, v.ttl, v.liveness, v.stamp = 0, 0, 0, 0, nil
	clear(v.taken[:])
	return args
}

// headerWords and opWords are HEADER and STRIDE of votes.lua: the words of ARGV up to the counters, and of an op.
const headerWords, opWords = 5, 4

// apart returns the arguments of calls of votes.lua with one op each, in the order of the ops, from those of a call with several.
func apart(args []any) (calls [][]any) {
	n := args[2].(int) / 2 // ops
	keys, rest := args[3:3+2*n], args[3+2*n:]
	head, words := rest[1:1+headerWords], rest[1+headerWords:]
	raises := int(head[0].(int64))
	ops := words[2*raises:]
	nth := 0 // of the ops that may raise a counter
	for i := range n {
		op, own := ops[opWords*i:opWords*(i+1)], []any(nil)
		if op[0] != actRelease && op[0] != actLeave {
			own = []any{words[nth], words[raises+nth]} // counter, proposed token
			nth++
		}
		call := []any{args[0], args[1], loneOpKeys, keys[2*i], keys[2*i+1], rest[0], int64(len(own) / 2)}
		calls = append(calls, slices.Concat(call, head[1:], own, op))
	}
	return calls
}

// joinVotes makes what apart's calls answered the answers of the call that they stand for.
func joinVotes(call *redis.Cmd, apart []redis.Cmder) {
	answers := make([]any, len(apart))
	for i, cmd := range apart {
		if answers[i] = cmd.(*redis.Cmd).Val(); cmd.Err() != nil {
			answers[i] = cmd.Err()
		}
	}
	call.SetErr(nil)
	call.SetVal(answers)
}

// releases returns those of apart's calls that are releases.
func releases(args []any) [][]any {
	return slices.DeleteFunc(apart(args), func(call []any) bool {
		switch call[len(call)-opWords] {
		case actRelease, actLeave, actHand:
			return false
		}
		return true
	})
}

// votesOf returns the answers of a call of votes.lua, one for each op.
func votesOf(cmd *redis.Cmd) []any {
	if cmd.Args()[2] == loneOpKeys {
		return []any{cmd.Val()}
	}
	all, _ := cmd.Val().([]any)
	return all
}
