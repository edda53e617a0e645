// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Played on real masters, call by call, the effects never show a lock without a TTL, publish what was recorded, and
// leave nothing behind but the fencing counter, which Redisson never deletes.
func TestEffects_playedOnRealMasters_noLockWithoutTTLAndNothingLeft(t *testing.T) {
	needs.Redis(t)
	servers, err := localredis.StartN(t.Context(), 3, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[int]*redis.Client{}
	for i, s := range servers {
		defer s.Close()
		nodes[i+1] = redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer nodes[i+1].Close()
	}
	for name, scene := range load(t) {
		for _, call := range byCall(Effects(scene)) {
			play(t, nodes[call[0].Node], call)
			for _, key := range nodes[call[0].Node].Keys(t.Context(), "*").Val() {
				c := nodes[call[0].Node]
				if c.Type(t.Context(), key).Val() == "hash" && c.PTTL(t.Context(), key).Val() < 0 {
					t.Errorf("%s at %v: %s has no TTL", name, call[0].At, key)
				}
			}
		}
		for n, c := range nodes {
			left := c.Keys(t.Context(), "*").Val()
			if name == "fenced" && n == 1 {
				if !slices.Equal(left, []string{"redisson_lock_token:{T1}"}) || c.Get(t.Context(), left[0]).Val() != "2" {
					t.Errorf("fenced leaves %v, want the counter, at 2", left)
				}
			} else if len(left) > 0 {
				t.Errorf("%s leaves %v on node %d", name, left, n)
			}
			c.FlushAll(t.Context())
		}
	}
}

// byCall cuts effects where the call changes.
func byCall(effects []Effect) [][]Effect {
	var calls [][]Effect
	for i, e := range effects {
		if i == 0 || e.Call != effects[i-1].Call {
			calls = append(calls, nil)
		}
		calls[len(calls)-1] = append(calls[len(calls)-1], e)
	}
	return calls
}

func play(t *testing.T, c *redis.Client, call []Effect) {
	t.Helper()
	_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, e := range call {
			args := make([]any, len(e.Args))
			for i, a := range e.Args {
				args[i] = a
			}
			p.Do(t.Context(), args...)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: LPOP of an empty queue
		t.Fatalf("%v: %v", call, err)
	}
}
