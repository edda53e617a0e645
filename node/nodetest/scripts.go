// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// script is one of node/lua/*.lua as a Go function of the same KEYS and ARGV,
// written to be read beside it, with its local names. What it returns is encoded
// as Redis would.
type script struct {
	name string
	run  func(db *DB, keys, argv []string) any
}

// scripts finds a script by the first line of its text, which no two share. A
// text that is not here, one of a new version for instance, is answered with an
// error: better than with what its predecessor did.
var scripts = map[string]script{
	"-- Tries every command that the other scripts call, on keys and channels of the check's": {"check", check},
	"-- Raises the counter to an attempt's token, where its vote is still held.":              {"confirm", confirm},
	"-- Gives votes that are still there a new TTL, and their hold count where one is":        {"extend", extend},
	"-- Takes a waiter out of the queue, and wakes the next when the lock is free.":           {"leave", leave},
	"-- Compare-and-set on fields of the node record.":                                        {"record", record},
	"-- Puts the vote of a live lease back where it is missing. No token, no counter, no":     {"topup", topUp},
	"-- Gives and takes back votes: all that is on its way to this master at once, in the":    {"votes", votes},
}

func scriptOf(text string) script {
	first, _, _ := strings.Cut(text, "\n")
	return scripts[first]
}

// check is check.lua, for a user with every right.
func check(*DB, []string, []string) any { return []any{[]string{}, []string{}} }

// votes is votes.lua. What is a short cut there is left out.
func votes(db *DB, keys, argv []string) any {
	rec, n, args := keys[len(keys)-1], int(number(argv[0])), argv[1:]
	gate, _ := db.HGet(rec, "gate")
	var refusal error
	switch {
	case n == 0:
	case db.err != nil:
		refusal = db.err
	case gate != argv[1]:
		refusal = fmt.Errorf("REDLOCK GATE %s", gate)
	}
	counts := make([]string, n) // as the script read them, before all acquires
	for i := range counts {
		counts[i], _ = db.HGet(rec, argv[4+i])
	}
	out := make([]any, 0, len(keys)/2)
	if n > 0 {
		args = argv[4+n:]
	}
	acquires := 0
	for i := 0; i < len(keys)-1; i += 2 {
		db.err = nil
		lock, queue := keys[i], keys[i+1]
		var answer any
		if strings.HasPrefix(args[0], "-") {
			answer, args = release(db, lock, queue, args), args[releaseWords(args[0]):]
		} else {
			count := counts[acquires]
			if answer = refusal; refusal == nil {
				var granted bool
				if answer, granted = acquire(db, lock, queue, args, number(argv[3]), argv[2], count); granted && db.err == nil {
					db.HSet(rec, argv[4+acquires], strconv.FormatInt(answer.(int64), 10))
				}
			}
			acquires++
			args = args[acquireWords(args[0]):]
		}
		if db.err != nil {
			answer = db.err
		}
		if err, ok := answer.(error); ok {
			answer = err.Error()
		}
		out = append(out, answer)
	}
	db.err = nil
	if len(out) == 1 {
		return out[0]
	}
	return out
}

// releaseWords and acquireWords are how many words an op has.
func releaseWords(how string) int {
	if len(how) == 3 {
		return 5
	}
	return 3
}

func acquireWords(how string) int {
	if how[0] == 'r' {
		return 5
	}
	return 4
}

// acquire is the function of that name in votes.lua.
func acquire(db *DB, lock, queue string, args []string, ttl int64, liveness, count string) (answer any, granted bool) {
	mode, queues, barges := args[0][:1], len(args[0]) > 1, strings.HasSuffix(args[0], "b")
	holder, floor, ticket, over := args[1], number(args[2]), number(args[3]), ""
	if mode == "r" {
		over = args[4]
	}
	waiter := waiterOf(holder, mode)
	left := db.PTTL(lock)
	free := left == -2
	if !free {
		if db.HExists(lock, holder) == 1 {
			return replay(count), false
		}
		if mode == "r" {
			held, _ := db.HGet(lock, "mode")
			free = held == "read" ||
				held == "write" && over != "" && db.HExists(lock, over) == 1
		}
	}

	turn, ahead, told := true, 0, ticket > 0
	if told && free && firstOf(db, queue) == waiter && scoreOf(db, queue, waiter) == ticket {
		// its turn
	} else if queues && !free || db.Exists(queue) == 1 {
		if queues {
			if !told {
				ticket = db.Time()
			}
			queueUp(db, queue, ticket, waiter, liveness)
			head(db, queue)
			ahead, _ = db.ZRank(queue, waiter)
			turn = ahead == 0 || barges
			if !turn && mode == "r" && free {
				turn = true
				for _, other := range db.ZRange(queue, ahead) {
					turn = turn && sideOf(other) == "/r"
				}
			}
		} else {
			turn = over != "" || head(db, queue) == ""
		}
	}

	if !(free && turn) {
		if free {
			left = 0
			if queues && told {
				wake(db, queue, lock, "")
			}
		}
		if !queues {
			return []any{-1 - left, holderOf(db, lock)}, false
		}
		stranger := int64(0)
		if left != 0 {
			for _, field := range db.HKeys(lock) {
				if field != "mode" && sub(field, 15, 15) != "8" {
					stranger = 1
				}
			}
		}
		return []int64{-1 - left, ticket, int64(ahead), stranger}, false
	}

	counter, ok := counterOf(count)
	if !ok || counter < 0 || counter >= 9007199254740990 {
		return fmt.Errorf("REDLOCK COUNTER %s", count), false
	}
	counter++
	if floor > counter+60000000 && floor > db.Time()+60000000 {
		floor = 0
	}
	counter = max(counter, floor)

	if mode == "r" {
		if left == -2 {
			db.HSet(lock, "mode", "read")
		}
		db.HSet(lock, holder, "1")
		db.SetPX(timeoutKey(lock, holder, 1), "1", ttl)
		if left < ttl {
			db.PExpire(lock, ttl)
		}
	} else {
		if mode == "w" {
			db.HSet(lock, "mode", "write")
		}
		db.HSet(lock, holder, "1")
		db.PExpire(lock, ttl)
	}

	if queues && db.ZRem(queue, waiter) == 1 && mode == "r" {
		if first := head(db, queue); first != "" && sideOf(first) == "/r" {
			db.Publish(wakeChannel(first), lock)
		}
	}
	return counter, true
}

// holderOf is the function of that name in votes.lua.
func holderOf(db *DB, lock string) string {
	if mode, _ := db.HGet(lock, "mode"); mode == "read" {
		return "*"
	}
	for _, field := range db.HKeys(lock) {
		if field != "mode" {
			return strings.TrimSuffix(field, ":write")
		}
	}
	return ""
}

// replay is what acquire answers to the holder: the counter.
func replay(count string) any {
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("REDLOCK COUNTER %s", cmp.Or(count, "0"))
	}
	return n
}

// head is the function of that name in votes.lua.
func head(db *DB, queue string) string {
	for {
		first := firstOf(db, queue)
		if first == "" || db.Exists(aliveKey(first)) == 1 {
			return first
		}
		db.ZRem(queue, first)
	}
}

func scoreOf(db *DB, queue, waiter string) int64 {
	score, _ := db.ZScore(queue, waiter)
	return int64(score)
}

// queueUp and waiterOf are the functions of these names in votes.lua.
func queueUp(db *DB, queue string, ticket int64, waiter, liveness string) {
	db.SetPX(aliveKey(waiter), "1", number(liveness))
	db.ZAdd(queue, float64(ticket), waiter)
	db.PExpire(queue, 60000)
}

func waiterOf(holder, mode string) string {
	if mode == "x" {
		return sub(holder, 1, 36)
	}
	return sub(holder, 1, 36) + "/" + mode
}

// confirm is confirm.lua.
func confirm(db *DB, keys, argv []string) any {
	gate, _ := db.HGet(keys[1], "gate")
	count, _ := db.HGet(keys[1], argv[2])
	if gate != argv[1] {
		return gateError(db, gate)
	}
	if db.HExists(keys[0], argv[0]) == 0 {
		return 0
	}
	counter, ok := counterOf(count)
	if !ok {
		return errNumber
	}
	if counter < number(argv[3]) {
		db.HSet(keys[1], argv[2], argv[3])
	} else if argv[4] == "r" {
		return 0
	}
	return 1
}

// extend is extend.lua.
func extend(db *DB, keys, argv []string) any {
	ttl := number(argv[0])
	gate, _ := db.HGet(keys[0], "gate")
	if gate != argv[1] && !strings.HasPrefix(gate, argv[2]) {
		return gateError(db, gate)
	}
	intact := make([]int64, len(keys)-1)
	for i := range intact {
		lock, holder, mode, count := keys[1+i], argv[3*i+3], argv[3*i+4], argv[3*i+5]
		held := db.HExists(lock, holder)
		if held == 1 && mode == "r" {
			held = db.PExpire(timeoutKey(lock, holder, 1), ttl)
		}
		if held == 1 {
			if count != "0" {
				db.HSet(lock, holder, count)
			}
			if mode != "r" || db.PTTL(lock) < ttl {
				db.PExpire(lock, ttl)
			}
		}
		intact[i] = int64(held)
	}
	return intact
}

// leave is leave.lua.
func leave(db *DB, keys, argv []string) any {
	if score, _ := db.ZScore(keys[1], argv[0]); argv[1] != "0" && int64(score) != number(argv[1]) {
		return 0
	}
	first := firstOf(db, keys[1])
	if db.ZRem(keys[1], argv[0]) == 0 {
		return 0
	}
	if first == argv[0] {
		first = firstOf(db, keys[1])
		if first != "" {
			free := db.Exists(keys[0]) == 0
			if !free {
				mode, _ := db.HGet(keys[0], "mode")
				free = mode == "read"
			}
			if free {
				db.Publish(wakeChannel(first), keys[0])
			}
		}
	}
	return 1
}

// record is record.lua.
func record(db *DB, keys, argv []string) any {
	get := func(field string) string {
		value, _ := db.HGet(keys[0], field)
		return value
	}
	n := int(number(argv[0]))
	for i := 1; i < 2*n; i += 2 {
		if get(argv[i]) != argv[i+1] {
			return []any{int64(0), get("gate")}
		}
	}
	for i := 2*n + 1; i < len(argv); i += 2 {
		field, value := argv[i], argv[i+1]
		counter := len(field) > 1 && field[0] == 'c' && field[1] >= '0' && field[1] <= '9'
		switch {
		case value == "":
			db.HDel(keys[0], field)
		case !counter || number(get(field)) < number(value):
			db.HSet(keys[0], field, value)
		}
	}
	return []any{int64(1), get("gate")}
}

// release is a release in votes.lua.
func release(db *DB, lock, queue string, args []string) any {
	mode, queues, holder, channel := args[0][1:2], len(args[0]) > 2, args[1], args[2]
	if db.HDel(lock, holder) == 0 {
		return 0
	}
	free, wakes := true, true
	if mode == "r" {
		db.Del(timeoutKey(lock, holder, 1))
		others, java, written := int64(0), false, false
		for _, field := range db.HKeys(lock) {
			if written = strings.HasSuffix(field, ":write"); written {
				break
			} else if field != "mode" {
				left := longestHold(db, lock, field)
				if left == 0 {
					db.HDel(lock, field)
				} else {
					java = java || sub(field, 15, 15) != "8"
				}
				others = max(others, left)
			}
		}
		if written {
			free, wakes = false, false
		} else if others > 0 {
			free, wakes = false, java || db.PTTL(lock)-others >= 1000
			db.PExpire(lock, others)
		} else {
			db.Del(lock)
		}
	} else if mode == "w" {
		if db.HLen(lock) > 1 {
			db.HSet(lock, "mode", "read")
		} else {
			db.Del(lock)
		}
	}
	if free {
		if mode == "w" {
			db.Publish(channel, "1")
		}
		db.Publish(channel, "0")
	}
	// pcall: once the vote is gone, it is gone whatever comes of the rest.
	if v := db.find(queue); v != nil && !isZSet(v) {
		if queues {
			db.SetPX(aliveKey(holder), "1", number(args[4]))
		}
		return 1
	}
	waiter := ""
	if queues {
		waiter = waiterOf(holder, mode)
		queueUp(db, queue, number(args[3]), waiter, args[4])
	}
	if !wakes {
		return 1
	}
	wake(db, queue, lock, waiter)
	return 1
}

// wake is the function of that name in votes.lua.
func wake(db *DB, queue, lock, waiter string) {
	if first := head(db, queue); first != "" && first != waiter {
		db.Publish(wakeChannel(first), lock)
	}
}

// longestHold is what is left to a reader, 0 when it died.
func longestHold(db *DB, lock, field string) (left int64) {
	value, _ := db.HGet(lock, field)
	count, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		count = 1
	}
	for i := range count {
		left = max(left, db.PTTL(timeoutKey(lock, field, i+1)))
	}
	return left
}

// topUp is topup.lua.
func topUp(db *DB, keys, argv []string) any {
	lock, holder, ttl, mode := keys[0], argv[0], number(argv[1]), argv[2]
	gate, _ := db.HGet(keys[1], "gate")
	if gate != argv[4] && !strings.HasPrefix(gate, argv[5]) {
		return gateError(db, gate)
	}
	left := db.PTTL(lock)
	if left != -2 && db.HExists(lock, holder) == 0 {
		held, _ := db.HGet(lock, "mode")
		if !(mode == "r" && held == "read") {
			return -1 - left
		}
	}
	if mode != "x" && left == -2 {
		db.HSet(lock, "mode", map[string]string{"r": "read", "w": "write"}[mode])
	}
	db.HSet(lock, holder, argv[3])
	if mode == "r" {
		db.SetPX(timeoutKey(lock, holder, 1), "1", ttl)
	}
	if left < ttl {
		db.PExpire(lock, ttl)
	}
	return 1
}

// firstOf is the member that heads a queue, "" when there is none.
func firstOf(db *DB, queue string) string {
	if names := db.ZRange(queue, 1); len(names) == 1 {
		return names[0]
	}
	return ""
}

// aliveKey and wakeChannel belong to a waiter's client, sideOf is what follows
// the client in its name.
func aliveKey(waiter string) string    { return "redlock:alive:" + sub(waiter, 1, 36) }
func wakeChannel(waiter string) string { return "redlock:wake:" + sub(waiter, 1, 36) }
func sideOf(waiter string) string      { return sub(waiter, 37, len(waiter)) }

// timeoutKey is the key by which the i-th hold of a read vote lives.
func timeoutKey(lock, holder string, i int64) string {
	if !strings.Contains(lock, "{") {
		lock = "{" + lock + "}"
	}
	return fmt.Sprintf("%s:%s:rwlock_timeout:%d", lock, holder, i)
}

// errNumber is where Lua compares what is no number.
var errNumber = errors.New("ERR attempt to compare nil with number")

// gateError refuses, unless the record could not be read at all.
func gateError(db *DB, gate string) error {
	if db.err != nil {
		return db.err
	}
	return fmt.Errorf("REDLOCK GATE %s", gate)
}

// counterOf is Lua's tonumber(count or 0).
func counterOf(count string) (int64, bool) {
	if count == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(count, 10, 64)
	return n, err == nil
}

// number is an argument as Lua's tonumber reads it; ours are whole.
func number(arg string) int64 {
	n, _ := strconv.ParseInt(arg, 10, 64)
	return n
}

// sub is Lua's string.sub for 1 <= i.
func sub(s string, i, j int) string {
	j = min(j, len(s))
	if i > j {
		return ""
	}
	return s[i-1 : j]
}
