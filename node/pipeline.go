// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

// maxVotes is how many ops one call of votes.lua takes: while it runs, the master
// answers nobody else.
const maxVotes = 64

// pipeline is what a batch of ops becomes on the wire. It is used again for the next,
// so that little is allocated.
type pipeline struct {
	cmds []redis.Cmder
	// places says by op where its answer comes.
	places []place
	votes  votes
	open   int // which of cmds votes gathers for; -1 none
	args   []any
}

// place is a command, -1 for an op that was not sent, and in a call of votes.lua the
// op's number.
type place struct{ cmd, op int }

func (p *pipeline) reset() {
	clear(p.cmds)
	clear(p.args)
	p.cmds, p.args, p.places, p.open = p.cmds[:0], p.args[:0], p.places[:0], -1
}

// skip leaves an op out.
func (p *pipeline) skip() { p.places = append(p.places, place{cmd: -1}) }

// add takes op in, for a connection whose gates are known.
func (p *pipeline) add(c *conn, op *protocol.Request) {
	if op.Kind != protocol.Acquire && op.Kind != protocol.Release {
		p.gathered(c)
		p.places = append(p.places, place{cmd: len(p.cmds)})
		p.cmds = append(p.cmds, c.command(op))
		return
	}
	if !p.votes.fits(op) {
		p.gathered(c)
	}
	if p.open < 0 {
		p.open = len(p.cmds)
		p.cmds = append(p.cmds, nil)
	}
	p.places = append(p.places, place{p.open, p.votes.n})
	p.votes.add(op)
}

// time asks for the master's TIME behind all that was added.
func (p *pipeline) time(c *conn) *redis.TimeCmd {
	p.gathered(c)
	cmd := redis.NewTimeCmd(background, "time")
	p.cmds = append(p.cmds, cmd)
	return cmd
}

// info asks who the master is, behind all that was added.
func (p *pipeline) info(c *conn) (server, replication *redis.StringCmd) {
	p.gathered(c)
	server = redis.NewStringCmd(background, "info", "server")
	replication = redis.NewStringCmd(background, "info", "replication")
	p.cmds = append(p.cmds, server, replication)
	return server, replication
}

// gathered ends the call of votes.lua that is being gathered.
func (p *pipeline) gathered(c *conn) {
	if p.open < 0 {
		return
	}
	from := len(p.args)
	p.args = p.votes.call(p.args, c)
	// What is before from may have moved: the calls before keep the old array.
	p.cmds[p.open] = redis.NewCmd(background, p.args[from:]...)
	p.open = -1
}

// reply takes the answer to op, the i-th that was added or skipped, into r, which is
// not copied on the way: there are many.
func (p *pipeline) reply(i int, op *protocol.Request, r *protocol.Reply) {
	at := p.places[i]
	if at.cmd < 0 {
		*r = protocol.Reply{Outcome: protocol.NotSent, Err: ErrLate}
		return
	}
	cmd := p.cmds[at.cmd]
	if all, ok := cmd.(*redis.Cmd); ok && (op.Kind == protocol.Acquire || op.Kind == protocol.Release) {
		readVote(r, op, all, at.op)
		return
	}
	*r = answer(op, cmd)
}

// do sends the pipeline. Calls that the master answers with NOSCRIPT are sent again
// with the script's text. The error is the connection's only.
func (p *pipeline) do(c *conn) error {
	p.gathered(c)
	if len(p.cmds) == 0 {
		return nil
	}
	for _, cmd := range p.cmds {
		_ = c.pipe.Process(background, cmd)
	}
	_, err := c.pipe.Exec(background)
	if err == nil {
		return nil
	}
	if !isReply(err) {
		return err
	}
	for i, cmd := range p.cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			return c.eval(p.cmds[i:])
		}
	}
	return nil
}

// eval sends cmds again with their scripts' texts: all of them from the first that
// found no script, because an acquire that runs only now must not come after its own
// release, which may have run already.
//
// A command that ran the first time keeps its first answer. Scripts answer a replay
// as they answered at first, with two exceptions: an acquire is told the present
// counter, which may be another reader's token by now, and a release no longer
// finds the vote that it removed. An op that failed at first and succeeds now has
// its second answer, for it has its effect now.
func (c *conn) eval(cmds []redis.Cmder) error {
	pipe := c.Pipeline()
	second := make([]redis.Cmder, len(cmds))
	for i, cmd := range cmds {
		args := slices.Clone(cmd.Args())
		if args[0] == "evalsha" {
			args[0], args[1] = "eval", sources[args[1].(string)]
		}
		second[i] = sameCommand(cmd, args)
		_ = pipe.Process(background, second[i])
	}
	_, err := pipe.Exec(background)
	if err != nil && !isReply(err) {
		for _, cmd := range cmds {
			cmd.SetErr(err) // what was refused at first may have been executed now
		}
		return err
	}
	for i, cmd := range cmds {
		switch {
		case cmd.Err() != nil:
			cmds[i] = second[i]
		case cmd.Args()[0] == "evalsha" && cmd.Args()[1] == votesSHA:
			mergeVotes(cmd.(*redis.Cmd), second[i].(*redis.Cmd))
		}
	}
	return nil
}

// sameCommand is a command of cmd's type with other words.
func sameCommand(cmd redis.Cmder, args []any) redis.Cmder {
	switch cmd.(type) {
	case *redis.IntCmd:
		return redis.NewIntCmd(background, args...)
	case *redis.IntSliceCmd:
		return redis.NewIntSliceCmd(background, args...)
	case *redis.StatusCmd:
		return redis.NewStatusCmd(background, args...)
	case *redis.SliceCmd:
		return redis.NewSliceCmd(background, args...)
	case *redis.MapStringStringCmd:
		return redis.NewMapStringStringCmd(background, args...)
	case *redis.TimeCmd:
		return redis.NewTimeCmd(background, args...)
	}
	return redis.NewCmd(background, args...)
}

// mergeVotes leaves in first, op by op, its own answer, but a grant of second where
// first has none.
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
	if first.Args()[2] == 3 {
		first.SetVal(was[0])
	}
}

// votesOf are what a call of votes.lua says of each of its ops.
func votesOf(cmd *redis.Cmd) []any {
	if cmd.Args()[2] == 3 { // keys: of one op, and the record
		return []any{cmd.Val()}
	}
	all, _ := cmd.Val().([]any)
	return all
}

// votes gathers acquires and releases that follow each other into one call of
// votes.lua. Its arguments are pointers into the ops, which go-redis follows when it
// writes, so hardly anything is allocated for them.
type votes struct {
	n, acquires         int
	keys, ops           []any
	ttl                 time.Duration // of the acquires
	liveness            time.Duration // of those who wait, 0 while there are none
	ttlArg, livenessArg boxed
	acquiresArg         boxed
	over                any // the write vote that an acquire may join, &Request.Over; nil: none
	// Invariant: no two acquires of a call are of one lock, nor share a counter. A master's
	// clock stands still while a script runs, so both would be given the same ticket.
	taken [(protocol.Counters + 63) / 64]uint64
}

// boxed is a number as an argument that is hardly ever another.
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

// votesCall is votesSHA as an argument.
var votesCall any = votesSHA

// Words of an op that are the same in many.
var (
	actAcquire, actBarge, actRelease any = "acquire", "barge", "release"
	empty                            any = ""
)

// fits says whether op can go into the same call as what is there.
func (v *votes) fits(op *protocol.Request) bool {
	if v.n == maxVotes || op.Wait != nil && v.liveness != 0 && v.liveness != op.Wait.Liveness {
		return false
	}
	return op.Kind == protocol.Release || v.acquires == 0 ||
		op.JoinWrite == "" && v.over == nil && v.ttl == op.TTL && v.taken[op.Lock.CounterIndex/64]&(1<<(op.Lock.CounterIndex%64)) == 0
}

// add takes op in: its two keys, and its six words in votes.lua's order.
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
		v.ops = append(v.ops, actRelease, &l.ModeText, holder, ticket, empty, empty)
		return
	}
	act := actAcquire
	if op.Wait != nil && op.Wait.Unfair {
		act = actBarge
	}
	if l.Mode == protocol.Read && op.JoinWrite != "" {
		v.over = &op.JoinWrite
	}
	v.acquires++
	v.ttl = op.TTL
	v.taken[l.CounterIndex/64] |= 1 << (l.CounterIndex % 64)
	v.ops = append(v.ops, act, &l.ModeText, holder, ticket, &l.Counter, &op.Token)
}

// call appends the words of the call to args, and begins the next.
func (v *votes) call(args []any, c *conn) []any {
	args = append(args, "evalsha", votesCall, len(v.keys)+1)
	args = append(args, v.keys...)
	over := empty
	if v.over != nil {
		over = v.over
	}
	args = append(args, &c.keys.record,
		v.acquiresArg.of(int64(v.acquires)), &c.gate, v.ttlArg.of(millis(v.ttl)), v.livenessArg.of(millis(v.liveness)), over)
	args = append(args, v.ops...)
	clear(v.keys)
	clear(v.ops)
	v.keys, v.ops = v.keys[:0], v.ops[:0]
	v.n, v.acquires, v.ttl, v.liveness, v.over = 0, 0, 0, 0, nil
	clear(v.taken[:])
	return args
}

// millis is a TTL as the master is told: 1 ms or more, because 0 would delete the key.
func millis(d time.Duration) int64 { return max(d.Milliseconds(), 1) }

// scriptError is what a script says of one op, in Redis's words or its own.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as an answer of the master.
func (scriptError) RedisError() {}

// vote reads what votes.lua said of op, the i-th in its call.
func readVote(r *protocol.Reply, op *protocol.Request, cmd *redis.Cmd, i int) {
	if err := cmd.Err(); err != nil {
		*r = failure(op, err)
		return
	}
	if cmd.Args()[2] == 3 { // as in votesOf, without making a slice of it
		decodeVote(r, op, cmd.Val())
		return
	}
	if all := votesOf(cmd); i < len(all) {
		decodeVote(r, op, all[i])
		return
	}
	*r = protocol.Reply{Err: errReply}
}

func decodeVote(r *protocol.Reply, op *protocol.Request, val any) {
	switch val := val.(type) {
	case int64:
		decode(r, op.Kind, val)
		return
	case string:
		*r = failure(op, scriptError(val))
		return
	case []any:
		if op.Kind == protocol.Acquire {
			*r = decodeNotNow(val)
			return
		}
	}
	*r = protocol.Reply{Err: errReply}
}

// decodeNotNow reads what an acquire is told that was not granted: two words, or four
// when it waits.
func decodeNotNow(vals []any) protocol.Reply {
	bad := protocol.Reply{Err: errReply}
	var n [4]int64
	numbers := len(vals)
	switch len(vals) {
	case 2:
		numbers = 1
	case 4:
	default:
		return bad
	}
	for i, v := range vals[:numbers] {
		var ok bool
		if n[i], ok = v.(int64); !ok || i > 0 && n[i] < 0 || i == 0 && n[i] > 0 {
			return bad
		}
	}
	var r protocol.Reply
	decode(&r, protocol.Acquire, n[0])
	if len(vals) == 2 {
		var ok bool
		if r.Holder, ok = vals[1].(string); !ok {
			return bad
		}
		return r
	}
	r.Ticket, r.Ahead, r.Foreign = n[1], int(n[2]), n[3] == 1
	return r
}
