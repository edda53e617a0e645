// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/nodetest/internal/resp"
	"github.com/redlock-go/redlock/node/nodetest/internal/script"
)

// snippets are what our scripts rely on, and where Lua interpreters are known to differ.
// Each is given the keys h (a hash), z (a sorted set), s (a string) and none.
var snippets = []string{
	"return {1, 2.9, -2.9, 'text', true, false, 3}", // false becomes nil, which does not end the array
	"return {1, nil, 3}",
	"return 9007199254740991",
	"return redis.status_reply('FINE')",
	"return redis.error_reply('REDLOCK STATE x')",
	"return {err = 'REDLOCK STATE why'}",
	"return redis.call('hget', KEYS[1], 'none') == false and 'false' or 'else'",
	"return redis.call('zrank', KEYS[2], 'none') == false and 'false' or 'else'",
	"return redis.call('hmget', KEYS[1], 'f', 'none', 'g')",
	"return redis.call('set', KEYS[4], 1.5, 'px', 1000)",
	"return redis.call('zrange', KEYS[2], 0, -1, 'withscores')",
	"return redis.call('hgetall', KEYS[1])",
	"return redis.pcall('hget', KEYS[3], 'f')",
	"return redis.pcall('hget', KEYS[3], 'f').err",
	"return type(redis.pcall('hget', KEYS[3], 'f'))",
	"local ok, e = pcall(redis.call, 'hget', KEYS[3], 'f') return {ok, type(e), e.err}",
	"local n = 0 local function f() n = n + 1 end pcall(error, {err = 'X'}) f() return n",
	"local n = 0 local function f() n = n + 1 redis.call('hget', KEYS[3], 'f') end pcall(f) pcall(f) return n",
	"local n = 0 local function f() n = n + 1 return nil + 1 end pcall(pcall, f) pcall(f) return n",
	"return 1 + nil",
	"local ok, e = pcall(function() return nil < 1 end) return {ok, type(e)}",
	"unheard_of = 1",
	"return unheard_of",
	"return redis.call('pexpire', KEYS[1], 'soon')",
	"return redis.call('pexpire', KEYS[1], 100000.5)",
	"return redis.call('hset', KEYS[1], 'f')",
	"return redis.call('hset', KEYS[1], 'f', {})",
	"return redis.call('unheardof', 1)",
	"redis.call('hset', KEYS[1], 'n', 1700000000000000 + 0) return redis.call('hget', KEYS[1], 'n')",
	"redis.call('zadd', KEYS[2], 1700000000000000, 'm') return redis.call('zscore', KEYS[2], 'm')",
	"local out = {} for _, t in ipairs({'7', ' 7 ', '1e3', '010', '0x10', '-0x10', '1_0', '', '1x', '1.5', '.5', '9007199254740993'}) do " +
		"local n = tonumber(t) out[#out + 1] = t .. ' ' .. (n and string.format('%.17g', n) or 'nil') end return out",
	"local n = tonumber('nan') return tostring(n == n)",
	"return {tostring(tonumber('inf') == math.huge), tostring(tonumber('-inf') == -math.huge), tostring(tonumber('1e999') == math.huge)}",
	"return {tostring(tonumber(nil)), tostring(12), tostring(1.5), 'k:' .. 3}",
	"return {string.sub('abc', 2, 9), string.sub('abc', 5), string.byte('-x'), #'abc'}",
	"return {string.gsub('a:write', ':write$', '')}",
	"return {string.find('a{b', '{', 1, true), string.find('c12', '^c%d')}",
	"return {unpack(ARGV, 2, 3)}",
	"return {unpack({'a', 'b'}, 1, 4)}",
	"return {math.max(1, 2), 7 % 2, 7.5 % 1, #KEYS, #ARGV}",
	"local t = {} for i, k in ipairs(KEYS) do t[#t + 1] = i .. k end return t",
}

// versioned are answered otherwise by Redis 6.2 (an error that no pcall catches loses its
// first word) or by Redis 8 and Valkey (numbers that are no integers below 2^53 are printed
// with fewer digits). The interpreter does as Redis 7, and our scripts rely on neither.
var versioned = []string{
	"return redis.call('hget', KEYS[3], 'f')",
	"local ok, e = pcall(error, {err = 'OWN text'}) return {ok, e.err}",
	"error({err = 'OWN text'})",
	"redis.call('hset', KEYS[1], 'n', 0.1) return redis.call('hget', KEYS[1], 'n')",
	"redis.call('hset', KEYS[1], 'n', 2^60) return redis.call('hget', KEYS[1], 'n')",
}

// The interpreter runs Lua, calls commands and turns values into replies as Redis does.
func TestScript_snippets_sameAsRedis(t *testing.T) {
	needs.Redis(t)
	needs.EveryServer(t)
	s, err := localredis.Start(t.Context(), localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	info, err := client.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	texts := snippets
	if strings.HasPrefix(localredis.VersionIn(info), "redis 7.") {
		texts = append(slices.Clone(texts), versioned...)
	} else {
		t.Log(localredis.VersionIn(info), "is not asked what releases answer in different ways")
	}
	m := NewMaster("m")
	keys, args := []string{"h", "z", "s", "none"}, []string{"a", "b", "c"}
	for _, text := range texts {
		client.FlushAll(t.Context())
		m.Flush()
		for _, words := range [][]string{{"hset", "h", "f", "1", "g", "2"}, {"zadd", "z", "2", "b"}, {"zadd", "z", "1", "a"}, {"set", "s", "text"}} {
			if err := client.Do(t.Context(), anys(words)...).Err(); err != nil {
				t.Fatal(err)
			}
			_ = m.Do(func(db *DB) { db.call(words[0], words[1:]) })
		}
		want := printed(client.Eval(t.Context(), text, keys, anys(args)...).Result())
		var got string
		if s, err := script.Compile(text); err != nil {
			got = printed(nil, err)
		} else {
			m.mu.Lock()
			got = printed(s.Run(m.dbLocked().call, keys, args), nil)
			m.mu.Unlock()
		}
		if got != want {
			t.Errorf("%s\nredis    %s\nnodetest %s", text, want, got)
		}
	}
}

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// printed is a reply as text, of an error its first word.
func printed(reply any, err error) string {
	switch r := reply.(type) {
	case error:
		err = r
	case resp.Status:
		reply = string(r)
	case []string:
		reply = anys(r)
	}
	if err == redis.Nil {
		err = nil
	}
	if err != nil {
		word, _, _ := strings.Cut(err.Error(), " ")
		return "error " + word
	}
	return fmt.Sprintf("%v", reply)
}

// BenchmarkScript is what a script costs the simulation: a read of one field.
func BenchmarkScript(b *testing.B) {
	s, err := script.Compile("return redis.call('hget', KEYS[1], ARGV[1])")
	if err != nil {
		b.Fatal(err)
	}
	m := NewMaster("m")
	db := m.dbLocked()
	db.HSet("h", "f", "1")
	for b.Loop() {
		s.Run(db.call, []string{"h"}, []string{"f"})
	}
}
