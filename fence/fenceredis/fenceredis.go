// SPDX-License-Identifier: Apache-2.0

// Package fenceredis keeps the fence of a Redis key beside it, and writes the key only under the newest token.
//
// Guarantee and conditions are those of package fence: Present before the first read, then write with Set or Do. Here the conditions mean:
// one master holds key and fence (a key and its fence share a hash slot), reads go to that master, nobody writes the key past this
// package, and the master forgets nothing that it acknowledged: maxmemory-policy noeviction, appendfsync always, no failover to a replica
// that is behind. The fence has no TTL; it must live as long as anyone may still hold an old token.
//
// Only GET and SET are used besides the caller's command: Redis 6.2 or later.
package fenceredis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/fence"
)

var (
	//go:embed lua/present.lua
	presentSource string
	//go:embed lua/guard.lua
	guardSource string

	luaPresent = redis.NewScript(presentSource)
	luaGuard   = redis.NewScript(guardSource)
)

// FenceKey returns the key that keeps the fence of key, in the same hash slot: "redlock_fence:{key}", or "redlock_fence:" and the key
// if that has a hash tag of its own. Of a key that is nothing but its tag, such as "{a}", it is "redlock_fence_tag:{a}", because
// "redlock_fence:{a}" is the fence of "a". Two keys never share a fence. A key with a "}" but no hash tag cannot be matched and is refused,
// and so is an empty one.
func FenceKey(key string) (string, error) {
	const prefix, ofTag = "redlock_fence:", "redlock_fence_tag:"
	if key == "" {
		return "", errors.New("fenceredis: empty key: name the key that the lock guards")
	}
	// Redis hashes what is between the first "{" and the first "}" after it, if anything, and else the whole key.
	if _, rest, ok := strings.Cut(key, "{"); ok && strings.IndexByte(rest, '}') > 0 {
		if key[0] == '{' && strings.IndexByte(key, '}') == len(key)-1 {
			return ofTag + key, nil
		}
		return prefix + key, nil
	}
	if strings.Contains(key, "}") {
		return "", fmt.Errorf("fenceredis: key %q has a } but no hash tag, so no fence can share its slot: give it a {tag} or drop the }", key)
	}
	return prefix + "{" + key + "}", nil
}

// Present shows the token to key and remembers it: call it before the first read of key. A token equal to the largest one seen is
// accepted, a smaller one refused with a *fence.StaleError. Presenting twice does no harm. After any other error the token may have
// been remembered: present it again, or give up. Any goroutine may call.
func Present(ctx context.Context, c redis.Scripter, key string, token int64) error {
	fenceKey, err := prepare(ctx, c, key, token)
	if err != nil {
		return err
	}
	stored, err := luaPresent.Run(ctx, c, []string{fenceKey}, token).Text()
	if err != nil {
		return fmt.Errorf("fenceredis: present token %d to %q: %w", token, key, err)
	}
	return check(fenceKey, key, token, stored)
}

// Do runs "command key args..." on the server only if token is still the largest one presented, in one script. It returns the command's
// reply as go-redis's Cmd.Result gives it for RESP2, which a script gets: HGETALL is a flat []any, and ZSCORE a string. A nil reply is nil, and no
// redis.Nil. An integer above 2^53 is rounded, because it has been a number of Lua: read it with GET. Commands that name keys behind the first do not fit.
//
// A larger token gives a *fence.StaleError; a token never presented, or a fence gone missing, an error that is fence.ErrNotPresented.
// With a client that does not retry (MaxRetries -1) the command did not run then. A client that retries, as go-redis does by default, may
// have run it before: the reply was lost, a larger token came or the fence went missing, and the second try was refused. After any other error
// the command may have run, and a client that retries may run it twice. For a command where that matters, such as INCRBY, give Do a client with
// MaxRetries -1 (docs/safety.md A16). Any goroutine may call.
func Do(ctx context.Context, c redis.Scripter, key string, token int64, command string, args ...any) (any, error) {
	fenceKey, err := prepare(ctx, c, key, token)
	if err != nil {
		return nil, err
	}
	argv := append([]any{token, command}, args...)
	reply, err := luaGuard.Run(ctx, c, []string{fenceKey, key}, argv...).Slice()
	if err != nil {
		return nil, fmt.Errorf("fenceredis: %s %q under token %d: %w", command, key, token, err)
	}
	if len(reply) == 2 {
		return reply[1], nil
	}
	return nil, check(fenceKey, key, token, fmt.Sprint(reply...))
}

// Set is Do with the command SET: it writes the whole value of key, without a TTL.
func Set(ctx context.Context, c redis.Scripter, key string, token int64, value any) error {
	_, err := Do(ctx, c, key, token, "SET", value)
	return err
}

func prepare(ctx context.Context, c redis.Scripter, key string, token int64) (fenceKey string, err error) {
	if ctx == nil {
		return "", errors.New("fenceredis: nil context")
	}
	if v := reflect.ValueOf(c); c == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", errors.New("fenceredis: nil client: pass the client of the master that holds the key")
	}
	if err := fence.Validate(key, token); err != nil {
		return "", err
	}
	return FenceKey(key)
}

// check turns the stored text into a verdict.
func check(fenceKey, key string, token int64, stored string) error {
	seen, err := strconv.ParseInt(stored, 10, 64)
	if err != nil {
		return fmt.Errorf("fenceredis: %q holds %q, not a token: somebody else writes this key; delete it while no lease is held", fenceKey, stored)
	}
	return fence.Check(key, token, seen)
}
