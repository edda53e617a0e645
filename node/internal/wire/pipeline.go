// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Conn is what a pipeline needs of one connection.
type Conn struct {
	Pipe redis.Pipeliner // it is empty after each execution, and is used again
	Keys *Keys
	// Voting is the record state of a master that votes, and Quarantined is how the
	// state of a quarantined master begins. Scripts compare the record with both.
	Voting, Quarantined string
	// MayHand says that releases may hand the lock to a waiter. It is false while the lane
	// doubts the master's clock: what the master says is free may have expired too early.
	MayHand bool
	// Deaf says that no message of the master reaches the client now: see [protocol.Deaf].
	Deaf bool
}

// Undoes reports whether r undoes the effect of an earlier op. The node sends such a
// request again until the master acknowledges it.
func Undoes(r *protocol.Request) bool { return r.Kind == protocol.Release && !mutants.NoDebt }

// Pipeline gathers the ops of one batch, sends them and reads the replies. The lane uses
// it again for each batch, so that little is allocated.
type Pipeline struct {
	conn   *Conn
	cmds   []redis.Cmder
	places []place // by op: where its answer is
	votes  votes
	open   int // index in cmds of the call that votes gathers; -1: none
	args   []any
}

// place says where the answer to an op is: cmd is the index of the command, or -1 if the
// op was not sent, because of why; op is the op's number within a call of votes.lua.
type place struct {
	cmd, op int
	why     error
}

// Reset starts a batch for connection c.
func (p *Pipeline) Reset(c *Conn) {
	clear(p.cmds)
	clear(p.args)
	p.conn, p.cmds, p.args, p.places, p.open = c, p.cmds[:0], p.args[:0], p.places[:0], -1
}

// Skip counts an op that is not sent, because of why.
func (p *Pipeline) Skip(why error) { p.places = append(p.places, place{cmd: -1, why: why}) }

// Add adds op to the batch.
func (p *Pipeline) Add(op *protocol.Request) {
	if op.Kind != protocol.Acquire && op.Kind != protocol.Release {
		p.closeCall()
		p.places = append(p.places, place{cmd: len(p.cmds)})
		p.cmds = append(p.cmds, p.conn.command(op))
		return
	}
	if !p.votes.fits(op) {
		p.closeCall()
	}
	if p.open < 0 {
		p.open = len(p.cmds)
		p.cmds = append(p.cmds, nil)
	}
	p.places = append(p.places, place{cmd: p.open, op: p.votes.n})
	p.votes.add(op, p.conn.MayHand)
}

// AddAlone adds an Acquire or Release to the batch, in a call with no other op.
func (p *Pipeline) AddAlone(op *protocol.Request) {
	p.closeCall()
	p.Add(op)
	p.closeCall()
}

// Time adds a request for the master's TIME, after all ops added so far.
func (p *Pipeline) Time() *redis.TimeCmd {
	p.closeCall()
	cmd := redis.NewTimeCmd(background, "time")
	p.cmds = append(p.cmds, cmd)
	return cmd
}

// Info adds a request for each of these sections of INFO, after all ops added so far.
func (p *Pipeline) Info(sections ...string) Info {
	p.closeCall()
	info := NewInfo(sections...)
	for _, cmd := range info {
		p.cmds = append(p.cmds, cmd)
	}
	return info
}

// Check adds a call that tries the user's rights, after all ops added so far.
func (p *Pipeline) Check() *Checked {
	p.closeCall()
	c := NewCheck(p.conn.Keys)
	p.cmds = append(p.cmds, c.check, c.named)
	return c
}

// Info is a request for sections of INFO: a call for each, because Redis 6.2 takes no more.
type Info []*redis.StringCmd

// NewInfo returns the request, which is not sent.
func NewInfo(sections ...string) Info {
	info := make(Info, len(sections))
	for i, section := range sections {
		info[i] = redis.NewStringCmd(background, "info", section)
	}
	return info
}

// AddTo adds the request to pipe.
func (in Info) AddTo(ctx context.Context, pipe redis.Pipeliner) Info {
	for _, cmd := range in {
		_ = pipe.Process(ctx, cmd)
	}
	return in
}

// Text returns the sections one after the other, or the first error.
func (in Info) Text() (string, error) {
	text := ""
	for _, cmd := range in {
		if err := cmd.Err(); err != nil {
			return "", err
		}
		text += cmd.Val()
	}
	return text, nil
}

// closeCall ends the call of votes.lua that is being gathered.
func (p *Pipeline) closeCall() {
	if p.open < 0 {
		return
	}
	from := len(p.args)
	p.args = p.votes.call(p.args, p.conn)
	// append may have moved the arguments to a new array. Earlier calls keep the old one.
	p.cmds[p.open] = redis.NewCmd(background, p.args[from:]...)
	p.open = -1
}

// Reply stores the reply to op, the i-th that was added or skipped, in r. It returns
// nothing, because copying a Reply for each op costs time.
func (p *Pipeline) Reply(i int, op *protocol.Request, r *protocol.Reply) {
	at := p.places[i]
	if at.cmd < 0 {
		*r = protocol.Reply{Outcome: protocol.NotSent, Err: at.why}
		return
	}
	cmd := p.cmds[at.cmd]
	if all, ok := cmd.(*redis.Cmd); ok && (op.Kind == protocol.Acquire || op.Kind == protocol.Release) {
		readVote(r, op, all, at.op)
		return
	}
	*r = answer(op, cmd)
}

// Do sends the batch. Calls that the master did not run, because it has not got their script or
// because the user may not touch a key of one of several ops or locks, are sent again: see again. Do returns
// the error of the connection; an error that the master answers is part of the replies.
func (p *Pipeline) Do() error {
	p.closeCall()
	if len(p.cmds) == 0 {
		return nil
	}
	for _, cmd := range p.cmds {
		_ = p.conn.Pipe.Process(background, cmd)
	}
	_, err := p.conn.Pipe.Exec(background)
	if err == nil {
		return nil
	}
	if !IsReply(err) {
		return err
	}
	for i, cmd := range p.cmds {
		if isForgotten(cmd) || isDenied(cmd) {
			return p.conn.again(p.cmds[i:])
		}
	}
	return nil
}

// again sends cmds again: with the script's text if the master did not have one, and each
// call of several ops, or locks, of which the user may not touch a key as a call for each, with the text too. cmds begins with the
// first command that the master did not run, and goes to the end of the batch.
//
// A command that ran keeps its first answer, and is not sent again, with two exceptions. Releases are: an acquire that runs only now must not come
// after its own release. A TIME or an INFO is too: see takeLater. To run all of them twice would be wrong. An acquire could give its holder a second
// vote, with another token, when the first is gone (rule R1 in docs/safety.md). A claim of a master could begin its quarantine a second time with one
// nonce, and a master that was emptied in between would vote too early: see "nonce" in docs/internals/membership.md.
func (c *Conn) again(cmds []redis.Cmder) error {
	forgotten := slices.ContainsFunc(cmds, isForgotten)
	second := make([][]redis.Cmder, len(cmds))
	for i, cmd := range cmds {
		for _, args := range secondCalls(cmd) {
			// Keys are checked before the script is looked for, so a call that was denied says nothing of the script.
			if (forgotten || isDenied(cmd)) && args[0] == "evalsha" {
				args[0], args[1] = "eval", sources[args[1].(string)]
			}
			second[i] = append(second[i], sameCommand(cmd, args))
			_ = c.Pipe.Process(background, second[i][len(second[i])-1])
		}
	}
	_, err := c.Pipe.Exec(background)
	if err != nil && !IsReply(err) {
		for i, cmd := range cmds {
			if len(second[i]) > 0 {
				cmd.SetErr(err) // what the master refused the first time it may have executed now
			}
		}
		return err
	}
	for i, cmd := range cmds {
		switch {
		case isDenied(cmd) && isVotes(cmd):
			joinVotes(cmd.(*redis.Cmd), second[i])
		case isDenied(cmd):
			joinExtends(cmd.(*redis.IntSliceCmd), second[i])
		case cmd.Err() != nil:
			cmds[i] = second[i][0]
		case !isVotes(cmd) && len(second[i]) > 0:
			takeLater(cmd, second[i][0])
		}
	}
	return nil
}

// secondCalls returns the arguments of what is sent again of cmd.
func secondCalls(cmd redis.Cmder) [][]any {
	switch cmd.(type) {
	case *redis.TimeCmd, *redis.StringCmd:
		return [][]any{slices.Clone(cmd.Args())}
	}
	switch {
	case isDenied(cmd) && isVotes(cmd):
		return apart(cmd.Args())
	case isDenied(cmd):
		return extendApart(cmd.Args())
	case cmd.Err() != nil:
		return [][]any{slices.Clone(cmd.Args())}
	case isVotes(cmd):
		return releases(cmd.Args())
	}
	return nil
}

// takeLater makes the second answer to a TIME or INFO the answer to first: it must be of a moment behind
// the votes, some of which were given only now.
func takeLater(first, second redis.Cmder) {
	switch first := first.(type) {
	case *redis.TimeCmd:
		first.SetVal(second.(*redis.TimeCmd).Val())
	case *redis.StringCmd:
		first.SetVal(second.(*redis.StringCmd).Val())
	}
	first.SetErr(second.Err())
}

// isForgotten says whether the master did not have the script of cmd.
func isForgotten(cmd redis.Cmder) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") }

// isDenied says whether cmd is a call of several ops that the master did not run, because the user may not touch
// one of its keys. The master checks the keys before it runs the script. When a command in a script is refused, the
// error begins with another word, or names the script: then the script may have run in part. An extend is denied then
// too: a replay of it changes nothing, and the key of a reader's TTL is looked at only in the script.
func isDenied(cmd redis.Cmder) bool {
	err := cmd.Err()
	switch {
	case err == nil:
		return false
	case isVotes(cmd):
		return cmd.Args()[2] != loneOpKeys && IsReply(err) &&
			strings.HasPrefix(err.Error(), "NOPERM ") && !strings.Contains(err.Error(), "script")
	}
	return isCallOf(cmd, extendSHA) && cmd.Args()[2] != 2 && denies(err)
}

// isVotes says whether cmd is a call of votes.lua.
func isVotes(cmd redis.Cmder) bool { return isCallOf(cmd, votesSHA) }

func isCallOf(cmd redis.Cmder, sha string) bool {
	args := cmd.Args()
	return args[0] == "evalsha" && args[1] == sha
}

// sameCommand returns a command of cmd's type with other arguments.
func sameCommand(cmd redis.Cmder, args []any) redis.Cmder {
	switch cmd.(type) {
	case *redis.IntCmd:
		return redis.NewIntCmd(background, args...)
	case *redis.IntSliceCmd:
		return redis.NewIntSliceCmd(background, args...)
	case *redis.StatusCmd:
		return redis.NewStatusCmd(background, args...)
	case *redis.StringCmd:
		return redis.NewStringCmd(background, args...)
	case *redis.SliceCmd:
		return redis.NewSliceCmd(background, args...)
	case *redis.MapStringStringCmd:
		return redis.NewMapStringStringCmd(background, args...)
	case *redis.TimeCmd:
		return redis.NewTimeCmd(background, args...)
	}
	return redis.NewCmd(background, args...)
}
