// SPDX-License-Identifier: Apache-2.0

package redissontest_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/redlock"
)

// owners are what we and Java call a holder, both <uuid>:<number>.
var owners = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+`)

// shape is what a lock's clients have left on a master: keys, values and TTLs in seconds, rounded up. Left out are our
// own keys, which Java never sees, and Java's latches, which only their writer reads.
func shape(t testing.TB, master *redis.Client) []string {
	t.Helper()
	var lines []string
	for _, key := range master.Keys(t.Context(), "*").Val() {
		if strings.HasPrefix(key, "redlock:") || strings.HasPrefix(key, "redisson_unlock_latch:") {
			continue
		}
		value := master.Get(t.Context(), key).Val()
		if fields := master.HGetAll(t.Context(), key).Val(); len(fields) > 0 {
			var pairs []string
			for field, n := range fields {
				pairs = append(pairs, owners.ReplaceAllString(field, "<owner>")+":"+n)
			}
			slices.Sort(pairs)
			value = fmt.Sprint(pairs)
		}
		seconds := (master.PTTL(t.Context(), key).Val() + time.Second - 1) / time.Second
		lines = append(lines, owners.ReplaceAllString(fmt.Sprintf("%s = %s for %d s", key, value, seconds), "<owner>"))
	}
	slices.Sort(lines)
	return lines
}

// told collects what Redisson's channels of a master say.
type told struct {
	mu    sync.Mutex
	lines []string
}

// hear subscribes to everything. Its end marks with what has been said before.
func hear(t testing.TB, master *redis.Client) *told {
	t.Helper()
	sub := master.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := &told{}
	go func() {
		for m := range sub.Channel() {
			h.mu.Lock()
			h.lines = append(h.lines, m.Channel+" "+m.Payload)
			h.mu.Unlock()
		}
	}()
	return h
}

// since returns what was said since it was called last, by the words of a master that has nothing more to say.
func (h *told) since(t testing.TB, master *redis.Client) (lines []string) {
	t.Helper()
	master.Publish(t.Context(), "mark", "")
	redissontest.Eventually(t, "the mark is heard", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.lines, "mark ")
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if strings.HasPrefix(l, "redisson") {
			lines = append(lines, l)
		}
	}
	h.lines = nil
	return lines
}

// Ours, step by step beside the recorded Java client on a master of its own: the same keys, fields, counts and TTLs,
// the same words on the same channels.
func TestReplay_ours_leavesWhatJavaLeaves(t *testing.T) {
	type step struct {
		role string                            // Java's call
		ours func(*stage) error                // the same of ours
		want func(javas []string) (w []string) // the messages, where ours differ
	}
	release := func(s *stage) error { return s.pop().Unlock(t.Context()) }
	extend := func(s *stage) error { return s.leases[len(s.leases)-1].Extend(t.Context()) }
	plain := func(s *stage) error { return s.push(s.client.Mutex(s.name).Lock(t.Context())) }
	read := func(s *stage) error { return s.push(s.client.RWMutex(s.name).RLocker().Lock(t.Context())) }
	write := func(s *stage) error { return s.push(s.client.RWMutex(s.name).Locker().Lock(t.Context())) }
	twice := func(s *stage) error { return errors.Join(plain(s), s.push(s.leases[0].Reenter(t.Context()))) }
	downgrade := func(s *stage) error {
		return s.push(s.client.RWMutex(s.name).RLocker().Lock(s.leases[0].Context()))
	}
	// Ours adds a 0, which Java cannot miss.
	writer := func(javas []string) []string { return append(javas, "redisson_rwlock:{R2} 0") }
	// Redisson tells nobody, though readers could come in now; ours does.
	readers := func(javas []string) []string {
		return append(javas, "redisson_rwlock:{R4} 1", "redisson_rwlock:{R4} 0")
	}

	for _, c := range []struct {
		scene, name string
		ttl         time.Duration
		steps       []step
	}{
		{"lock-unlock", "L1", 3 * time.Second, []step{{"lock.acquire", plain, nil}, {"lock.release", release, nil}}},
		{"watchdog", "L8", 3 * time.Second, []step{{"lock.acquire", plain, nil}, {"lock.renew", extend, nil}, {"lock.release", release, nil}}},
		{"read-watchdog", "R5", 3 * time.Second, []step{{"read.acquire", read, nil}, {"read.renew", extend, nil}, {"read.release", release, nil}}},
		{"write-blocks-read", "R2", 5 * time.Second, []step{{"write.acquire", write, nil}, {"write.release", release, writer}}},
		{"write-downgrade", "R4", 5 * time.Second, []step{{"write.acquire", write, nil}, {"read.acquire", downgrade, nil},
			{"write.release", func(s *stage) error { return s.shift().Unlock(t.Context()) }, readers}, {"read.release", release, nil}}},
		{"write-reentrant", "R6", 5 * time.Second, []step{{"write.acquire", write, nil}}},
		{"reentrant", "L3", 4 * time.Second, []step{{"lock.acquire lock.acquire", twice, nil}, {"lock.release", release, nil}, {"lock.release", release, nil}}},
	} {
		played(t, c.scene, redissontest.Masters(t, 2), func(t testing.TB, addrs []string) {
			r := newReplay(t, c.scene, addrs[:1])
			s := &stage{client: ours(t, addrs[1:], redlock.WithTTL(c.ttl), redlock.WithoutRenewal()), name: c.name}
			javas, goes := r.masters[0], redissontest.Client(t, addrs[1])
			javaSaid, weSaid := hear(t, javas), hear(t, goes)
			for i, step := range c.steps {
				for _, m := range []*redis.Client{javas, goes} { // so that a new TTL shows
					for _, key := range m.Keys(t.Context(), "*"+c.name+"*").Val() {
						m.PExpire(t.Context(), key, 1900*time.Millisecond)
					}
				}
				for _, role := range strings.Fields(step.role) {
					r.to(role)
				}
				if err := step.ours(s); err != nil {
					t.Fatalf("step %d, our %s: %v", i, step.role, err)
				}
				want, got := shape(t, javas), shape(t, goes)
				if !slices.Equal(got, want) {
					t.Errorf("step %d, after %s:\nours %q\nJava %q", i, step.role, got, want)
				}
				said, ourWords := javaSaid.since(t, javas), weSaid.since(t, goes)
				if step.want != nil {
					said = step.want(said)
				}
				if !slices.Equal(ourWords, said) {
					t.Errorf("step %d, %s says:\nours %q\nJava %q", i, step.role, ourWords, said)
				}
			}
		})
	}
}

// stage is where our side of a scene is played.
type stage struct {
	client *redlock.Client
	name   string
	leases []*redlock.Lease // oldest first
}

func (s *stage) push(l *redlock.Lease, err error) error {
	if err == nil {
		s.leases = append(s.leases, l)
	}
	return err
}

func (s *stage) pop() *redlock.Lease {
	l := s.leases[len(s.leases)-1]
	s.leases = s.leases[:len(s.leases)-1]
	return l
}

func (s *stage) shift() *redlock.Lease {
	l := s.leases[0]
	s.leases = s.leases[1:]
	return l
}
