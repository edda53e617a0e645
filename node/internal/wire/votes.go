// SPDX-License-Identifier: Apache-2.0

package wire

import (
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
	counters, proposals []any         // of the acquires
	ttl                 time.Duration // of the acquires
	liveness            time.Duration // of the waiters; 0 while there are none
	ttlArg, livenessArg boxed
	acquiresArg         boxed
	joinWrite           any // &Request.JoinWrite of the acquire that may join a write vote; nil: none
	// Invariant: the acquires of a call are of different locks with different counters.
	// The script reads and writes each counter once. A master's clock stands still while a
	// script runs, so it would give two acquires of one lock the same ticket.
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
	votesCall                        any = votesSHA
	actAcquire, actBarge, actRelease any = "acquire", "barge", "release"
	empty                            any = ""
)

// fits reports whether op can join the call that is being gathered.
func (v *votes) fits(op *protocol.Request) bool {
	if v.n == maxVotes || op.Wait != nil && v.liveness != 0 && v.liveness != op.Wait.Liveness {
		return false
	}
	return op.Kind == protocol.Release || v.acquires == 0 ||
		op.JoinWrite == "" && v.joinWrite == nil && v.ttl == op.TTL && v.taken[op.Lock.CounterIndex/64]&(1<<(op.Lock.CounterIndex%64)) == 0
}

// add appends op to the call: its two keys, its four words in votes.lua's order, and the
// counter and the proposed token of an acquire.
func (v *votes) add(op *protocol.Request) {
	l := op.Lock
	v.n++
	v.keys = append(v.keys, &l.Name, &l.Queue)
	holder, ticket := &op.Holder, empty
	if l.Mode == protocol.Write {
		field := l.Field(op.Holder)
		holder = &field
	}
	if op.Wait != nil {
		ticket = &op.Wait.Ticket
		v.liveness = op.Wait.Liveness
	}
	if op.Kind == protocol.Release {
		v.ops = append(v.ops, actRelease, &l.ModeText, holder, ticket)
		return
	}
	act := actAcquire
	if op.Wait != nil && op.Wait.Unfair {
		act = actBarge
	}
	if l.Mode == protocol.Read && op.JoinWrite != "" {
		v.joinWrite = &op.JoinWrite
	}
	v.acquires++
	v.ttl = op.TTL
	v.taken[l.CounterIndex/64] |= 1 << (l.CounterIndex % 64)
	v.counters = append(v.counters, &l.Counter)
	v.proposals = append(v.proposals, &op.Token)
	v.ops = append(v.ops, act, &l.ModeText, holder, ticket)
}

// call appends the arguments of the call to args, and starts the next call.
func (v *votes) call(args []any, c *Conn) []any {
	args = append(args, "evalsha", votesCall, len(v.keys)+1)
	args = append(args, v.keys...)
	joinWrite := empty
	if v.joinWrite != nil {
		joinWrite = v.joinWrite
	}
	args = append(args, &c.Keys.Record, v.acquiresArg.of(int64(v.acquires)), v.livenessArg.of(millis(v.liveness)))
	if v.acquires > 0 {
		args = append(args, &c.Voting, v.ttlArg.of(millis(v.ttl)), joinWrite)
		args = append(args, v.counters...)
		args = append(args, v.proposals...)
	}
	args = append(args, v.ops...)
	for _, words := range []*[]any{&v.keys, &v.ops, &v.counters, &v.proposals} {
		clear(*words)
		*words = (*words)[:0]
	}
	v.n, v.acquires, v.ttl, v.liveness, v.joinWrite = 0, 0, 0, 0, nil
	clear(v.taken[:])
	return args
}

// mergeVotes keeps the answers in first, but replaces each that is not a grant by the
// grant that second has for the same op, if it has one.
func mergeVotes(first, second *redis.Cmd) {
	was, now := votesOf(first), votesOf(second)
	if second.Err() != nil || len(was) != len(now) {
		return
	}
	for j := range was {
		if granted, ok := now[j].(int64); ok && granted > 0 {
			if had, ok := was[j].(int64); !ok || had <= 0 {
				was[j] = now[j]
			}
		}
	}
	if first.Args()[2] == loneOpKeys {
		first.SetVal(was[0])
	}
}

// votesOf returns the answers of a call of votes.lua, one for each op.
func votesOf(cmd *redis.Cmd) []any {
	if cmd.Args()[2] == loneOpKeys {
		return []any{cmd.Val()}
	}
	all, _ := cmd.Val().([]any)
	return all
}
