// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/node/nodetest/internal/resp"
)

// command is one of Redis's commands on data. A reply is an int64, a string, a status,
// nil, a []string or []any of these, or an error.
type command struct {
	min, max int // how many words it takes after its name; max 0: any number
	run      func(db *DB, args []string) any
}

// commands are those that scripts and clients may call, by name in lower case: the ones
// that node's scripts need. A new script that needs more adds them here.
var commands = map[string]command{
	"del":     {1, 0, func(db *DB, args []string) any { return each(args, db.Del) }},
	"exists":  {1, 0, func(db *DB, args []string) any { return each(args, db.Exists) }},
	"get":     {1, 1, func(db *DB, args []string) any { return orNil(db.Get(args[0])) }},
	"set":     {2, 4, set},
	"pexpire": {2, 2, pexpire},
	"pttl":    {1, 1, func(db *DB, args []string) any { return db.PTTL(args[0]) }},
	"time":    {0, 0, timeOf},

	"hset":    {3, 0, hset},
	"hget":    {2, 2, func(db *DB, args []string) any { return orNil(db.HGet(args[0], args[1])) }},
	"hmget":   {2, 0, hmget},
	"hgetall": {1, 1, hgetall},
	"hdel": {2, 0, func(db *DB, args []string) any {
		return each(args[1:], func(f string) int { return db.HDel(args[0], f) })
	}},
	"hexists":    {2, 2, func(db *DB, args []string) any { return int64(db.HExists(args[0], args[1])) }},
	"hkeys":      {1, 1, func(db *DB, args []string) any { return db.HKeys(args[0]) }},
	"hlen":       {1, 1, func(db *DB, args []string) any { return int64(db.HLen(args[0])) }},
	"hrandfield": {2, 2, hrandfield},

	"zadd": {3, 3, zadd},
	"zrem": {2, 0, func(db *DB, args []string) any {
		return each(args[1:], func(member string) int { return db.ZRem(args[0], member) })
	}},
	"zpopmin": {1, 1, zpopmin},
	"zrank":   {2, 2, zrank},
	"zscore":  {2, 2, zscore},
	"zrange":  {3, 4, zrange},

	"scan":    {1, 3, scan},
	"pubsub":  {1, 0, pubsub},
	"publish": {2, 2, func(db *DB, args []string) any { return int64(db.Publish(args[0], args[1])) }},
}

var (
	errArgs   = errors.New("ERR wrong number of arguments")
	errSyntax = errors.New("ERR syntax error")
	errInt    = errors.New("ERR value is not an integer or out of range")
	errFloat  = errors.New("ERR value is not a valid float")
)

// call runs one command. A command that fails changes nothing, and the next one runs: a
// script that used redis.pcall goes on.
func (db *DB) call(name string, args []string) any {
	c, ok := commands[name]
	if !ok {
		if c, ok = commands[strings.ToLower(name)]; !ok {
			return fmt.Errorf("ERR unknown command '%s'", name)
		}
	}
	if len(args) < c.min || c.max > 0 && len(args) > c.max {
		return errArgs
	}
	if grows, isWrite := writes[strings.ToLower(name)]; isWrite {
		if err := db.refusal(grows); err != nil {
			return err
		}
		db.wrote = true
	}
	reply := c.run(db, args)
	if err := db.err; err != nil {
		db.err = nil
		return err
	}
	return reply
}

// callOfScript is call for redis.call.
func (db *DB) callOfScript(name string, args []string) any {
	if db.calls != nil {
		db.calls(name)
	}
	return db.call(name, args)
}

// writes are the commands that write, and whether each needs memory.
var writes = map[string]bool{"del": false, "set": true, "pexpire": false, "hset": true, "hdel": false, "zadd": true, "zrem": false, "zpopmin": false}

// refusal is why the master does not do a write, which may need memory, or nil. As in Redis, a script that has
// written may go on, and a master without memory refuses only what needs some.
func (db *DB) refusal(grows bool) error {
	if db.refuses == nil || db.wrote || strings.HasPrefix(db.refuses.Error(), "OOM") && !grows {
		return nil
	}
	return db.refuses
}

func each(args []string, fn func(string) int) int64 {
	n := 0
	for _, arg := range args {
		n += fn(arg)
	}
	return int64(n)
}

func orNil(val string, ok bool) any {
	if !ok {
		return nil
	}
	return val
}

// set is SET with no option or with PX.
func set(db *DB, args []string) any {
	switch {
	case len(args) == 2:
		db.Set(args[0], args[1])
		return resp.Status("OK")
	case len(args) != 4 || !strings.EqualFold(args[2], "px"):
		return errSyntax
	}
	ttl, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil || ttl <= 0 {
		return errInt
	}
	db.SetPX(args[0], args[1], ttl)
	return resp.Status("OK")
}

func pexpire(db *DB, args []string) any {
	ttl, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return errInt
	}
	return int64(db.PExpire(args[0], ttl))
}

func timeOf(db *DB, _ []string) any {
	us := db.Time()
	return []string{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}
}

func hset(db *DB, args []string) any {
	if len(args)%2 == 0 {
		return errArgs
	}
	n := 0
	for i := 1; i < len(args); i += 2 {
		n += db.HSet(args[0], args[i], args[i+1])
	}
	return int64(n)
}

func hmget(db *DB, args []string) any {
	vals := make([]any, len(args)-1)
	for i, field := range args[1:] {
		vals[i] = orNil(db.HGet(args[0], field))
	}
	return vals
}

// hgetall answers in the order of the fields: a map would have to be sorted.
func hgetall(db *DB, args []string) any {
	all := []string{}
	for _, field := range db.HKeys(args[0]) {
		val, _ := db.HGet(args[0], field)
		all = append(all, field, val)
	}
	return all
}

func hrandfield(db *DB, args []string) any {
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 { // a negative count may repeat fields; no script asks so
		return errInt
	}
	return db.HRandField(args[0], n)
}

func zadd(db *DB, args []string) any {
	score, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return errFloat
	}
	return int64(db.ZAdd(args[0], score, args[2]))
}

func zrank(db *DB, args []string) any {
	if rank, ok := db.ZRank(args[0], args[1]); ok {
		return int64(rank)
	}
	return nil
}

func zscore(db *DB, args []string) any {
	if score, ok := db.ZScore(args[0], args[1]); ok {
		return scoreText(score)
	}
	return nil
}

// zpopmin is ZPOPMIN of one member.
func zpopmin(db *DB, args []string) any {
	out := []string{}
	for _, member := range db.ZRange(args[0], 1) {
		score, _ := db.ZScore(args[0], member)
		out = append(out, member, scoreText(score))
		db.ZRem(args[0], member)
	}
	return out
}

// scoreText is a score as Redis prints it. What scripts put there is whole and exact.
func scoreText(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// zrange is ZRANGE from the first member on, with or without scores.
func zrange(db *DB, args []string) any {
	first, err := strconv.Atoi(args[1])
	last, err2 := strconv.Atoi(args[2])
	scores := len(args) == 4 && strings.EqualFold(args[3], "withscores")
	switch {
	case errors.Join(err, err2) != nil:
		return errInt
	case first != 0 || last < -1 || len(args) == 4 && !scores:
		return errSyntax
	}
	var out []string
	n := last + 1
	if last < 0 {
		n = -1
	}
	for _, name := range db.ZRange(args[0], n) {
		out = append(out, name)
		if scores {
			score, _ := db.ZScore(args[0], name)
			out = append(out, scoreText(score))
		}
	}
	return out
}

// scan is SCAN with a COUNT, 10 by default. It goes through the keys in the order of their hashes, so
// that a key which is there all the time is found, whatever comes and goes meanwhile.
func scan(db *DB, args []string) any {
	cursor, err := strconv.ParseUint(args[0], 10, 64)
	count := 10
	if len(args) > 1 {
		var err2 error
		if len(args) != 3 || !strings.EqualFold(args[1], "count") {
			return errSyntax
		}
		count, err2 = strconv.Atoi(args[2])
		err = errors.Join(err, err2)
	}
	if err != nil || count < 1 {
		return errInt
	}
	order := make(map[uint64][]string)
	for _, key := range db.Keys() {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key))
		if at := h.Sum64(); at >= cursor {
			order[at] = append(order[at], key)
		}
	}
	keys := []string{}
	for _, at := range slices.Sorted(maps.Keys(order)) {
		if len(keys) >= count {
			return []any{strconv.FormatUint(at, 10), keys}
		}
		keys = append(keys, order[at]...)
	}
	return []any{"0", keys}
}

// pubsub is PUBSUB NUMSUB: each channel and its number of subscribers.
func pubsub(db *DB, args []string) any {
	if !strings.EqualFold(args[0], "numsub") {
		return fmt.Errorf("ERR unknown subcommand '%s'", args[0])
	}
	counts := make([]any, 0, 2*len(args))
	for _, channel := range args[1:] {
		counts = append(counts, channel, int64(db.Subscribers(channel)))
	}
	return counts
}
