// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

// maxRemaining caps the remaining TTL that a reply may claim. It is far above any real
// TTL, because this library does not set the TTL of a foreign key.
const maxRemaining = 365 * 24 * time.Hour

// answer returns the reply to op, which cmd carried alone.
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
		switch op.Kind {
		case protocol.CompareAndSetRecord:
			return decodeCompareAndSet(cmd.Val())
		case protocol.Inspect:
			return decodeInspect(cmd.Val())
		case protocol.ListLocks:
			return decodeList(cmd.Val())
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

// failure returns the reply to op when the master or the connection answered err.
func failure(op *protocol.Request, err error) protocol.Reply {
	err = stripOrigin(err)
	switch {
	case Undoes(op) && IsWrongType(err):
		return protocol.Reply{Outcome: protocol.Absent} // a key of another type holds no vote
	case (op.Kind == protocol.ReadRecord || op.Kind == protocol.CompareAndSetRecord) && IsWrongType(err):
		return protocol.Reply{Outcome: protocol.Refused, Err: &protocol.RecordError{What: "it is no hash", Key: recordKey}}
	case op.Kind == protocol.Acquire && isPartlyExecuted(err):
		return protocol.Reply{Err: err} // Unknown, so that the coordinator releases it
	case NotServing(err) != nil && Undoes(op):
		return protocol.Reply{Err: err} // Unknown, so that the lane sends it again, on the next connection
	case NotServing(err) != nil:
		return protocol.Reply{Outcome: protocol.NotSent, Err: err} // the server executed nothing
	case op.Lock != nil && IsWrongType(err): // Redis does not say which key
		return protocol.Reply{Outcome: protocol.Refused, Err: fmt.Errorf(
			"%w (another program has its data under the lock's key %q or its queue %q: delete that, or give the lock another name)", err, op.Lock.Key, op.Lock.Queue)}
	case IsReply(err):
		return protocol.Reply{Outcome: protocol.Refused, Err: refusal(err)}
	}
	return protocol.Reply{Err: err}
}

// decode reads a script's answer that is a single integer.
func decode(r *protocol.Reply, kind protocol.Kind, n int64) {
	*r = protocol.Reply{}
	switch {
	case (kind == protocol.Acquire || kind == protocol.Adopt) && n > 0:
		r.Outcome, r.Token = protocol.Granted, n
	case kind != protocol.Acquire && n == 1:
		r.Outcome = protocol.Granted
	case (kind == protocol.Release || kind == protocol.Confirm || kind == protocol.Dequeue || kind == protocol.Announce || kind == protocol.Adopt) && n == 0:
		r.Outcome = protocol.Absent
	case (kind == protocol.Acquire || kind == protocol.TopUp) && n <= 0:
		left := min(-1-n, int64(maxRemaining/time.Millisecond))
		r.Outcome, r.Remaining = protocol.Held, time.Duration(left)*time.Millisecond
	default: // Unknown: the number does not say what the master executed
		r.Err = errReply
	}
}

// decodeCompareAndSet reads what record.lua returns.
func decodeCompareAndSet(vals []any) protocol.Reply {
	if len(vals) == 2 {
		done, isNumber := vals[0].(int64)
		state, isText := vals[1].(string)
		switch {
		case isNumber && isText && done == 1:
			return protocol.Reply{Outcome: protocol.Granted}
		case isNumber && isText && done == 0:
			return protocol.Reply{Outcome: protocol.Refused, Err: &protocol.RecordStateError{Got: state}}
		}
	}
	return protocol.Reply{Err: errReply}
}

// decodeInspect reads what inspect.lua returns.
func decodeInspect(vals []any) protocol.Reply {
	bad := protocol.Reply{Err: errReply}
	if len(vals) != 7 {
		return bad
	}
	votes, is0 := vals[0].(int64)
	counter, is1 := vals[1].(string)
	text, is2 := vals[2].(string)
	mode, is3 := vals[3].(string)
	votings, is4 := vals[4].([]any)
	places, is5 := vals[5].([]any)
	rest, is6 := vals[6].([]any)
	if !is0 || !is1 || !is2 || !is3 || !is4 || !is5 || !is6 || len(rest)%3 != 0 || len(votings)%4 != 0 || len(places)%3 != 0 {
		return bad
	}
	in := &protocol.Inspected{Votes: votes == 1, Announcement: text}
	in.Counter, _ = strconv.ParseInt(counter, 10, 64) // 0 if it is no number, which votes.lua would refuse
	for v := range slices.Chunk(votings, 4) {
		field, is0 := v[0].(string)
		count, is1 := v[1].(string)
		left, is2 := v[2].(int64)
		owner, is3 := v[3].(string)
		if !is0 || !is1 || !is2 || !is3 {
			return bad
		}
		held := protocol.Voting{Field: field, Mode: modeOf(mode, field), Owner: owner,
			Left: millisLeft(left)}
		held.Count, _ = strconv.Atoi(count)
		in.Votings = append(in.Votings, held)
	}
	for v := range slices.Chunk(places, 3) {
		place, is0 := v[0].(string)
		ticket, is1 := v[1].(string)
		owner, is2 := v[2].(string)
		if !is0 || !is1 || !is2 {
			return bad
		}
		n, _ := strconv.ParseFloat(ticket, 64) // as Redis prints a score; 0 if it is no number
		in.Waiting = append(in.Waiting, protocol.Waiting{Place: place, Ticket: int64(n), Owner: owner})
	}
	for v := range slices.Chunk(rest, 3) {
		field, is0 := v[0].(string)
		left, is1 := v[1].(int64)
		owner, is2 := v[2].(string)
		if !is0 || !is1 || !is2 {
			return bad
		}
		in.Rest = protocol.Voting{Field: field, Mode: protocol.Plain, Owner: owner, Left: millisLeft(left)}
	}
	return protocol.Reply{Outcome: protocol.Granted, Inspected: in}
}

// millisLeft is a PTTL that a script returned.
func millisLeft(left int64) time.Duration {
	return time.Duration(min(left, int64(maxRemaining/time.Millisecond))) * time.Millisecond
}

// decodeList reads what locks.lua returns.
func decodeList(vals []any) protocol.Reply {
	bad := protocol.Reply{Err: errReply}
	if len(vals) != 2 {
		return bad
	}
	cursor, isText := vals[0].(string)
	names, isList := vals[1].([]any)
	if !isText || !isList {
		return bad
	}
	listed := &protocol.Listed{Cursor: cursor}
	for _, v := range names {
		name, isText := v.(string)
		if !isText {
			return bad
		}
		listed.Names = append(listed.Names, name)
	}
	return protocol.Reply{Outcome: protocol.Granted, Listed: listed}
}

// modeOf is the mode of the vote of a field, in a lock's hash whose field mode is that. A writer that
// goes on as a reader has a field for each.
func modeOf(mode, field string) protocol.Mode {
	switch {
	case mode == "":
		return protocol.Plain
	case strings.HasSuffix(field, ":write"):
		return protocol.Write
	}
	return protocol.Read
}

// readVote reads what votes.lua answered for op, the i-th in its call, into r.
func readVote(r *protocol.Reply, op *protocol.Request, cmd *redis.Cmd, i int) {
	if err := cmd.Err(); err != nil {
		*r = failure(op, err)
		return
	}
	if cmd.Args()[2] == loneOpKeys { // as in votesOf, which would make a slice of it
		decodeVote(r, op, cmd.Val())
		return
	}
	if all := votesOf(cmd); i < len(all) {
		decodeVote(r, op, all[i])
		return
	}
	*r = protocol.Reply{Err: errReply}
}

// decodeVote reads the answer of votes.lua for one op.
func decodeVote(r *protocol.Reply, op *protocol.Request, val any) {
	switch val := val.(type) {
	case int64:
		decode(r, op.Kind, val)
		return
	case string:
		*r = failure(op, scriptError(val))
		return
	case error: // of a call that was sent apart
		*r = failure(op, val)
		return
	case []any:
		if op.Kind == protocol.Acquire {
			*r = decodeNotGranted(val)
			return
		}
	}
	*r = protocol.Reply{Err: errReply}
}

// decodeNotGranted reads the answer to an acquire that was not granted: two values, or
// four if the caller waits.
func decodeNotGranted(vals []any) protocol.Reply {
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

// rights reads what check.lua returns: the rights that the user lacks for every lock, those that
// it lacks for read locks, and an ErrNoWrites if the master refuses to write.
func rights(reply any) (missing, forReaders []string, refusal error) {
	lists, _ := reply.([]any)
	if len(lists) > 2 {
		if text, _ := lists[2].(string); text != "" {
			refusal = NoWrites(scriptError(text))
		}
	}
	var texts [2][]string
	for i, list := range lists[:min(len(lists), 2)] {
		words, _ := list.([]any)
		for _, w := range words {
			texts[i] = append(texts[i], fmt.Sprint(w))
		}
	}
	return texts[0], texts[1], refusal
}
