// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/lua"
	"github.com/redlock-go/redlock/node/nodetest"
)

// memory is the store of a master in memory, which runs the scripts that ship.
type memory struct {
	m     *nodetest.Master
	java  node.Node
	hears bool
	heard map[string]bool // the clients whose channel is subscribed
	said  []votesmodel.Message
}

// inMemory runs fn with a master in memory, whose scripts are edited. No time passes by itself.
func inMemory(t *testing.T, edit func(string) string, fn func(d *driver, w votesmodel.World, reset func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &memory{m: nodetest.NewMaster("m"), heard: map[string]bool{}}
		s.m.EditScripts(edit)
		s.m.Subscribe(func(channel, payload string) {
			if !ofCheck(channel) && (s.hears || !slices.Contains(redissons, channel)) {
				s.said = append(s.said, votesmodel.Message{Channel: channel, Text: payload})
			}
		})
		s.java = s.m.Node(node.Config{Clock: clock.Monotonic()})
		s.java.Bind(protocol.Binding{Subscribed: func(string) {}})
		t.Cleanup(func() { _ = s.java.Close() })
		d, w := newDriver(t, s, func(cfg node.Config) node.Node { return s.m.Node(cfg) })
		fn(d, w, func() {
			if s.hears {
				_ = s.Listen(false)
			}
			for client := range s.heard {
				_ = s.Hear(client, false)
			}
			s.m.Flush()
			s.said = nil
			d.enter(w)
		})
	})
}

func (s *memory) Said() ([]votesmodel.Message, error) {
	said := s.said
	s.said = nil
	return said, nil
}

func (s *memory) Keys() (votesmodel.Keys, error) {
	all := votesmodel.Keys{}
	err := s.m.Do(func(db *nodetest.DB) {
		for _, name := range db.Keys() {
			kind, items := "string", []string{}
			switch {
			case name == lockName || name == protocol.RecordKey:
				kind = "hash"
				for field, value := range db.HGetAll(name) {
					items = append(items, field, value)
				}
			case strings.HasPrefix(name, "redlock:queue:"):
				kind = "zset"
				for _, member := range db.ZRange(name, -1) {
					score, _ := db.ZScore(name, member)
					items = append(items, member, strconv.FormatFloat(score, 'f', -1, 64))
				}
			default:
				value, _ := db.Get(name)
				items = append(items, value)
			}
			all[name] = keyOf(name, kind, time.Duration(db.PTTL(name))*time.Millisecond, items)
		}
	})
	return all, err
}

func (s *memory) Delete(keys ...string) error {
	return s.m.Do(func(db *nodetest.DB) {
		for _, k := range keys {
			db.Del(k)
		}
	})
}

func (s *memory) SetHash(key, field, value string) error {
	return s.m.Do(func(db *nodetest.DB) { db.HSet(key, field, value) })
}

func (s *memory) Expire(key string, ttl time.Duration) error {
	return s.m.Do(func(db *nodetest.DB) { db.PExpire(key, ttl.Milliseconds()) })
}

func (s *memory) Listen(on bool) error {
	s.subscribe(on, redissons...)
	s.hears = on
	return nil
}

func (s *memory) Hear(client string, on bool) error {
	s.subscribe(on, protocol.Wake(client))
	s.heard[client] = on
	if !on {
		delete(s.heard, client)
	}
	return nil
}

func (s *memory) subscribe(on bool, channels ...string) {
	for _, channel := range channels {
		if on {
			s.java.Subscribe(channel)
		} else {
			s.java.Unsubscribe(channel)
		}
	}
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

// The same scripts on a master in memory, which is quicker, and where no time passes.
func TestScripts_inMemory_asTheModel(t *testing.T) {
	needs.NoRace(t, computes)
	for _, readers := range []bool{false, true} {
		t.Run(fmt.Sprintf("readers %t", readers), func(t *testing.T) {
			inMemory(t, nil, func(d *driver, w votesmodel.World, reset func()) {
				w.Readers = readers
				check(t, d, w, reset, runs{short: 3, random: 200, least: 10})
			})
		})
	}
}

// breaks are ways to get the scripts wrong: what is in votes.lua, and what is there instead. The replay must find each.
// gopher-lua does not end a loop that has "if false".
var breaks = []struct{ name, sound, broken string }{
	// The five of the hand.
	{"H9: hands although the record state differs", "hands and fits and free", "hands and free"},
	{"does not raise the counter of a hand", "local token, _, text = raise(nth)", "local token, text = next_token(counter_of(nth), ARGV[proposals + nth], latest)"},
	{"leaves the place of what it handed", "if not ticket then", "if false then"},
	{"leaves the place of what it handed to the first", "first, ticket = unpack(try('zpopmin', queue))", "first, ticket = unpack(try('zrange', queue, 0, 0, 'withscores'))"},
	{"loses the place that it wakes", "if ticket then\n      put(queue, ticket, heir)", "if false then\n      put(queue, ticket, heir)"},
	{"does not tell Redisson of a lock that is waited for", "if other and others ~= 0 then", "if false then"},
	{"H12: hands for two hours", "'1', liveness, -2, false", "'1', '7200000', -2, false"},
	{"owner check: a release removes anybody's vote", "local gone, more, first, ticket = try('hdel', lock, holder),",
		"local gone, more, first, ticket = try('hdel', lock, try('hkeys', lock)[1] or holder),"},
	// Others.
	{"H1: tells another stamp", "text .. '\\0' .. given", "text .. '\\0' .. '1'"},
	{"H2: keeps the stamp of the first sign of life", "call('set', sign_of_life(place), stamp, 'px', liveness)", "call('set', sign_of_life(place), stamp, 'px', liveness, 'nx')"},
	{"H3: does not renew the vote that is found", "left >= 0 and left < tonumber(ttl)", "left < 0"},
	{"H4: a release leaves the place", "call('zrem', queue, plain, handable)", "local kept = plain"},
	{"H4: a release leaves the place that may be handed", "call('zrem', queue, plain, handable)", "call('zrem', queue, plain)"},
	{"H7: again creates a place", "not places and not call('zscore', queue, place)", "false"},
	{"H9: acquires although the record state differs", "(found[1] or '') ~= ARGV[2] and", "false and"},
	{"H10: a place outlives its record state", "(state_of(first) or state) ~= state", "false"},
	{"H10: a place has no record state", "return holder .. '/' .. mode .. '/' .. state", "return holder .. '/' .. mode .. '/'"},
	{"H11: orders by arrival", "call('zadd', queue, ticket, place)", "call('zadd', queue, call('zcard', queue), place)"},
	{"H16: hands what it finds free", "elseif seldom().leave(queue, holder, mode, first) then", "elseif seldom().leave(queue, holder, mode, first) then free, hands = call('exists', lock) == 0, true"},
	{"H16: hands when a reader releases", "and free and mode ~= 'r' and heard == 0", "and free and heard == 0"},
	{"H16: hands a lock that a read vote is left of", "free = mode == 'x' or seldom().after_writer(lock, channel)", "free = mode == 'x' or seldom().after_writer(lock, channel) or true"},
	{"H17: hands unasked", "= act == 'hand' and gone == 1,", "= (act == 'hand' or act == 'release') and gone == 1,"},
	{"hands past a listener of Redisson's", "mode ~= 'r' and heard == 0 and", "mode ~= 'r' and"},
	{"hands to places that must not be handed", "heard == 0 and state_of(heir) and not", "heard == 0 and not"},
	{"hands to clients without a sign of life", "if not waited and given and not", "given = given or '0' if not waited and given and not"},
	{"ignores the proposal", "if floor > token and floor <= latest then", "if false then"},
	{"takes any proposal", "floor > token and floor <= latest then", "floor > token then"},
	{"an acquire does not see the hand before it", "return stale and call('hget', record, ARGV[counters + nth]) or found", "return found"},
	{"leave wakes the head", "if not (wakes and tells) then", "if not wakes then"},
	{"a leave of the first place wakes nobody", "first, wakes = nil, call('exists', lock) == 0 or", "first, wakes = nil, false and"},
	{"queue takes a vote", "if free and takes and (passes", "if free and (passes"},
	{"queue takes a vote when nobody waits", "act ~= 'queue' and act ~= 'again'", "act ~= 'again'"},
	{"a retry wakes nobody", "if free and not first_ask and first ~= place then", "if free and passes and first ~= place then"},
	{"a first acquire takes out who was killed, of a held lock", "(free or not first_ask) and head", "head"},
	{"a retry does not take out who was killed", "(free or not first_ask) and head", "free and head"},
	{"a lone acquire passes the queue", "try('exists', KEYS[1], KEYS[2]) == 0", "try('exists', KEYS[1]) == 0"},
	{"an acquire behind a release passes the queue", "idle = idle and try('exists', unpack(keys)) == 0", "idle = idle and try('exists', KEYS[1]) == 0"},
	{"a release does not see the queue", "first = try('zrange', queue, '0', '0')[1]", "first = nil"},
	{"one that tries passes the queue", "or not head(queue, true)", "or true"},
	{"readers pass a writer", "if not is_reader(other) then", "if other == '' then"},
	{"a reader does not wake the next", "if behind and is_reader(behind) then", "if false then"},
	{"the hash outlives the readers that remain", "call('pexpire', lock, longest)", "local longer = longest"},
	{"the hash outlives the readers that remain: the last to end is not looked at", "local last, all = mine > near,", "local last, all = mine > near + NEAR,"},
	{"the hash ends with the oldest reader", "look(call('hrandfield', lock, SOME))", "look({call('hkeys', lock)[2]})"},
	{"the hash stays behind readers that all died", "if all and longest == 0 then", "if all and last and longest == 0 then"},
	{"a reader that died stays", "call('hdel', lock, field)\n        end", "local kept = field\n        end"},
	{"a reader that died stays: only few are looked at", "local lives = longest_hold(lock, field)", "local lives = longest <= near and longest_hold(lock, field) or 1"},
	{"the lock ends sooner, and nobody is woken", "call('pexpire', lock, longest)\n    return false, true", "call('pexpire', lock, longest)\n    return false, false"},
	{"a reader leaves its timeout key", "call('del', own)", "local kept = own"},
	{"a queue without a TTL", "local lives = try('pexpire', queue, '60000')", "local lives = 1"},
	{"H19: everybody listens", "return count[2] ~= 0", "return true"},
	{"H19: only who says so listens", "return count[2] ~= 0", "return false"},
	{"H19: nobody listens", "if string.sub(given, -1) == 'w' then\n    return true", "if given then\n    return false"},
	{"H19: w is ignored", "if string.sub(given, -1) == 'w' then", "if string.sub(given, -1) == 'v' then"},
	{"H19: does not look beyond the head", "call('zrem', queue, first)\n", "do return first, given, others end\n"},
	{"H19: a place that is passed over ends the queue", "call('zrem', queue, first)\n", "call('del', queue)\n"},
	{"H19: tells another stamp than that of the place", "return first, given, others", "return first, '1', others"},
	{"H19: the caller's own place is passed over", "local waited, others = first == own, nil", "local waited, others = false, nil"},
	{"H19: readers wait for a writer that does not listen", "if given and listens(other, given) then", "if given then"},
	{"H19: readers pass a writer that listens", "if given and listens(other, given) then", "if given == '' then"},
	{"H19: one that tries is refused though nobody listens", "or not head(queue, true)", "or false"},
	{"H19: a release hands to the first, whoever it is", "local heir, given, others = head(queue, fits, nil, first, other)", "if ticket then put(queue, ticket, first) end local others local heir = call('zrange', queue, 0, 0)[1] local given = heir and call('get', sign_of_life(heir))"},
	{"oust: takes away a vote of one that listens", "or not given or listens(holder, given) then", "or not given then"},
	{"oust: leaves the vote of one that does not listen", "act == 'oust' and mode == 'x'", "act == 'oust' and mode == 'r'"},
	{"oust: any act takes the vote away", "act == 'oust' and mode == 'x'", "mode == 'x'"},
	{"a wake does not name the place", "lock .. '\\0' .. place or lock", "lock or lock"},
	{"does not tell that Redisson holds the lock", "has_foreign(fields or call('hkeys', lock)) and 1 or 0", "0 or 0"},
}

// breaksOf are ways to get other scripts wrong, and votes.lua about what these write.
var breaksOf = []struct{ name, script, sound, broken string }{
	{"grants a lock that rests, when nobody waits", "votes", "if not (refusal or found[3]) and", "if not refusal and"},
	{"grants a lock that rests, behind a release", "votes", "idle = idle and not found[3]", "idle = idle and found"},
	{"grants a lock that rests", "votes", "if rester then\n    free,", "if rester and left ~= -2 then\n    free,"},
	{"hands a lock that rests", "votes", "and state_of(heir) and not (found[3] and call('exists', rest_key(queue)) == 1)", "and state_of(heir)"},
	{"tells the TTL of the vote, and not of the rest", "votes", "math.max(left, rest_left)", "math.max(left, 0)"},
	{"a rest outlives its epoch", "votes", "if string.sub(put, 1, #epoch) == epoch then", "if true then"},
	{"a rest ends with its incarnation", "votes", "return string.match(state, '^[^|]*|[^|]*') or ''", "return state .. '.'"},
	{"leaves a rest of another epoch", "votes", "call('del', rest_key(queue)) -- its epoch", "local kept = rest -- its epoch"},
	{"does not say after whom the lock rests", "votes", "rester or seldom().holder_of(lock)", "seldom().holder_of(lock)"},
	{"lifts anybody's rest", "votes", "string.sub(put, -#rester - 1) == ' ' .. rester", "put"},
	{"lifts no rest", "votes", "lifted = try('del', rest)", "lifted = 1"},
	{"lifts unasked", "votes", "local lifted = word ~= '' and slow.seldom().lift(queue, word)", "local lifted = slow.seldom().lift(queue, word ~= '' and word or holder)"},
	{"wakes nobody for a rest that is lifted", "votes", "gone == 1 or lifted, 0", "gone == 1, 0"},
	{"has the lock rest for one without a vote", "confirm", "if call('hexists', lock, holder) == 0 then\n  return 0", "if call('hexists', lock, holder) == 0 then\n  call('set', rest, epoch_of(state) .. ' ' .. holder, 'px', math.max(lasts, 1))\n  return 0"},
	{"does not note that a lock rested", "confirm", "call('hset', record, 'rests', 1)", "local kept = record"},
	{"a rest without a TTL", "confirm", "epoch_of(state) .. ' ' .. holder, 'px', lasts)", "epoch_of(state) .. ' ' .. holder)"},
	{"a rest of nobody", "confirm", "epoch_of(state) .. ' ' .. holder,", "epoch_of(state) .. ' ',"},
	{"a rest of no epoch", "confirm", "epoch_of(state) .. ' ' .. holder,", "'2| ' .. holder,"},
	{"has the lock rest although the record state differs", "confirm", "if (found[1] or '') ~= state then", "if false then"},
	{"a write lease shortens its reader's key", "extend", "and call('hlen', lock) == 2", "and true"},
	{"a write lease lives as long as the reader that it had", "extend", "mode == 'w' and call('hlen', lock) == 2", "false"},
	{"what a writer leaves lives as long as the writer", "votes", "call('hset', lock, 'mode', 'read')\n    call('pexpire', lock, longest)", "call('hset', lock, 'mode', 'read')"},
	{"keeps the token", "adopt", "call('hset', record, counter, stored, 'latest', reach)", "token = tonumber(last)"},
	{"leaves the giver's vote", "adopt", "call('hdel', lock, holder)", "local kept = holder"},
	{"gives a vote that is not there", "adopt", "if call('hexists', lock, holder) == 0 then\n  return 0\nend", ""},
	{"adopts what was voted in another state", "adopt", "if state ~= voted then", "if false then"},
	{"passes on what a waiter of Redisson's is to be told of", "adopt", "if heard and not heard.err and heard[2] ~= 0 then", "if false then"},
	{"passes nothing on", "adopt", "if heard and not heard.err and heard[2] ~= 0 then", "if heard then"},
	{"adopts although the record state differs", "adopt", "if (found[1] or '') ~= state then", "if false then"},
	{"the vote lasts as long as the giver's", "adopt", "1, ttl, -2, false)", "1, ttl, call('pttl', lock), false)"},
	{"shortens the vote that it has", "adopt", "if call('pttl', lock) < tonumber(ttl) then", "if true then"},
	{"does not renew the vote", "adopt", "done = try('pexpire', lock, ttl)", "done = 1"},
	{"does not renew the vote that it has", "adopt", "call('pexpire', lock, ttl)", "local kept = ttl"},
}

// foundBy are the first paths that find what others than these find late: with them the gate begins.
var foundBy = map[string]uint64{
	"does not renew the vote that it has":                 1471,
	"H16: hands a lock that a read vote is left of":       1026,
	"H19: readers wait for a writer that does not listen": 1470,
	"a reader that died stays":                            630,
	"a reader that died stays: only few are looked at":    1140,
	"grants a lock that rests, behind a release":          701,
	"the hash ends with the oldest reader":                328,
	"the hash stays behind readers that all died":         552,
}

func TestScripts_broken_diverge(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Test(t)
	all := breaksOf
	for _, b := range breaks {
		all = append(all, struct{ name, script, sound, broken string }{b.name, "votes", b.sound, b.broken})
	}
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			script := lua.Source(b.script)
			if !strings.Contains(script, b.sound) {
				t.Fatalf("%s.lua has no %q", b.script, b.sound)
			}
			edit := func(text string) string {
				if text == script {
					return strings.ReplaceAll(text, b.sound, b.broken)
				}
				return text
			}
			inMemory(t, edit, func(d *driver, w votesmodel.World, reset func()) {
				first := max(foundBy[b.name], 1)
				for n := first - 1; n < first+4000; n++ {
					w.Readers = n%2 == 0
					reset()
					path := votesmodel.FirstOnly(w)
					if n >= first {
						path = votesmodel.Paths(w, n, 1, 60)[0]
					}
					err := votesmodel.Replay(w, path, d)
					var diverged *votesmodel.DivergenceError
					if errors.As(err, &diverged) {
						t.Logf("path %d, step %d, in its %s", n, len(diverged.Path), diverged.What)
						return
					} else if err != nil {
						t.Logf("path %d: %v", n, err) // an answer that no op has
						return
					}
				}
				t.Error("no path finds it")
			})
		})
	}
}
