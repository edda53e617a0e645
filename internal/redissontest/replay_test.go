// SPDX-License-Identifier: Apache-2.0

package redissontest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/redlock"
)

// ours opens a client of the masters.
func ours(t testing.TB, addrs []string, opts ...redlock.Option) *redlock.Client {
	t.Helper()
	var urls []string
	for _, addr := range addrs {
		urls = append(urls, "redis://"+addr)
	}
	busy := redlock.WithNodeTimeout(3 * time.Second) // the machine may be
	opts = append([]redlock.Option{busy, redlock.WithUnsafeRecoveryOff(), redlock.WithNodeCount(len(addrs))}, opts...)
	c, err := redlock.Open(t.Context(), urls, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// After each call of each scene our locks on the same master, and our quorum lock on all three, agree with what the
// Java clients believed then.
func TestReplay_everyScene_oursRefusedExactlyWhileJavaHolds(t *testing.T) {
	needs.Test(t)
	addrs := redissontest.Masters(t, 3)
	scenes, err := redissontest.Scenes()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, scene := range scenes {
		played(t, scene.Name, addrs, func(t testing.TB, addrs []string) {
			// It asks for a node timeout again where each master has another holder, as Java's are.
			quorum := ours(t, addrs, redlock.WithNodeTimeout(redlock.DefaultNodeTimeout))
			var each []*redlock.Client
			for i := range addrs {
				each = append(each, ours(t, addrs[i:i+1]))
			}
			r := newReplay(t, scene.Name, addrs)
			for step := 0; ; step++ {
				role, ok := r.next()
				if !ok {
					break
				}
				heldOn := map[string]int{}
				for at, j := range r.java {
					what := fmt.Sprintf("after call %d (%s), %s on master %d", step, role, at.name, at.node)
					if j.held() {
						refused++
						heldOn[at.name]++
					} else {
						heldOn[at.name] += 0
					}
					if !r.rw() {
						wantTry(t, what, each[at.node-1].Mutex(at.name), !j.held(), j)
						continue
					}
					rw := each[at.node-1].RWMutex(at.name)
					wantTry(t, what+", our reader", rw.RLocker(), !j.written(), j)
					wantTry(t, what+", our writer", rw.Locker(), !j.held(), j)
				}
				if r.rw() {
					continue
				}
				for name, n := range heldOn {
					lease, err := quorum.Mutex(name).TryLock(t.Context())
					if (err == nil) != (n <= 1) || err != nil && !errors.Is(err, redlock.ErrHeld) {
						t.Errorf("after call %d (%s), %s held on %d of 3 masters: quorum lock: %v", step, role, name, n, err)
					}
					if err == nil {
						lease.Unlock(t.Context())
					}
				}
			}
			for at, j := range r.java {
				if j.held() {
					t.Errorf("%v is still held by %v at the end", at, j.owners)
				}
			}
		})
	}
	if refused < 50 {
		t.Errorf("only %d states with a hold", refused)
	}
}

// settled returns when a master has run no script for a while: who waits there has asked, subscribed and asked again,
// and sleeps now.
func settled(t testing.TB, master *redis.Client) {
	t.Helper()
	scripts, since := "", time.Now()
	redissontest.Eventually(t, "no script runs", func() bool {
		_, calls, _ := strings.Cut(master.Info(t.Context(), "commandstats").Val(), "cmdstat_evalsha:calls=")
		if calls, _, _ = strings.Cut(calls, ","); calls != scripts {
			scripts, since = calls, time.Now()
		}
		return time.Since(since) > 30*time.Millisecond
	})
}

// later takes our lock in the background and returns once it sleeps for a Java holder, and hears Redisson's channel on
// all masters: only a message or the TTL can wake it.
func later(t testing.TB, m redlock.Locker, channel string, masters []*redis.Client) <-chan *redlock.Lease {
	t.Helper()
	got := make(chan *redlock.Lease, 1)
	go func() {
		lease, err := m.Lock(t.Context())
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Lock(%s): %v", m.Name(), err)
		}
		if err == nil {
			got <- lease
		}
	}()
	for _, master := range masters {
		redissontest.Eventually(t, m.Name()+" is waited for", func() bool {
			return master.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
		})
		settled(t, master)
	}
	return got
}

func taken(t testing.TB, got <-chan *redlock.Lease) {
	t.Helper()
	select {
	case lease := <-got:
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("not taken within 10 s")
	}
}

// The TTLs are 3 to 5 s; who has the lock much earlier was told.
func TestReplay_release_ourWaiterWokenByPush(t *testing.T) {
	addrs := redissontest.Masters(t, 3)
	for _, c := range []struct {
		scene, name string
		acquires    int    // to be played before ours waits
		release     string // the last call to be played
		side        string
		nodes       int
	}{
		{"lock-lease", "L2", 1, "lock.release", "plain", 1},
		{"lock-unlock", "L1", 1, "lock.release", "plain", 1},
		{"reentrant", "L3", 2, "lock.release", "plain", 1},
		{"force-unlock", "L10", 1, "lock.force-release", "plain", 1},
		{"fenced", "T1", 1, "lock.release", "plain", 1},
		{"multi", "M2", 3, "lock.release", "plain", 1},
		{"redlock", "Q1", 3, "lock.release", "plain", 3},
		{"write-blocks-read", "R2", 1, "write.release", "reader", 1},
		{"write-blocks-read", "R2", 1, "write.release", "writer", 1},
		{"read-blocks-write", "R3", 1, "read.release", "writer", 1},
		{"write-reentrant", "R6", 2, "write.release", "reader", 1},
		{"write-downgrade", "R4", 2, "read.release", "writer", 1},
		{"read-read", "R1", 3, "read.release", "writer", 1},
	} {
		played(t, c.scene+" "+c.side, addrs, func(t testing.TB, addrs []string) {
			r := newReplay(t, c.scene, addrs)
			client := ours(t, addrs[:c.nodes])
			m, channel := redlock.Locker(client.Mutex(c.name)), "redisson_lock__channel:{"+c.name+"}"
			if c.side != "plain" {
				rw := client.RWMutex(c.name)
				m, channel = rw.Locker(), "redisson_rwlock:{"+c.name+"}"
				if c.side == "reader" {
					m = rw.RLocker()
				}
			}
			for n := 0; n < c.acquires; {
				if role, _ := r.next(); strings.HasSuffix(role, ".acquire") {
					n++
				}
			}
			got := later(t, m, channel, r.masters[:c.nodes])
			for 2*r.heldOn(c.name) > c.nodes { // a majority is Java's
				select {
				case <-got:
					t.Fatalf("taken beside Java on %d of %d masters", r.heldOn(c.name), c.nodes)
				default:
				}
				r.to(c.release)
			}
			freed := time.Now()
			taken(t, got)
			late := time.Since(freed)
			if late > time.Second {
				t.Errorf("taken %v after the release", late)
			}
			t.Logf("taken %v after the release", late)
			for ok := true; ok; { // leave nothing to the next scene on these masters
				_, ok = r.next()
			}
		})
	}
}

// heldOn is on how many masters Java holds the lock.
func (r *replay) heldOn(name string) (n int) {
	for at, j := range r.java {
		if at.name == name && j.held() {
			n++
		}
	}
	return n
}

// A RedissonRedLock that holds two of three masters: our waiter gets the third's vote at each try and gives it back, and
// must not be woken by the message of its own release.
func TestReplay_javaLacksAVote_isNotPolled(t *testing.T) {
	addrs := redissontest.Masters(t, 3)
	r := newReplay(t, "redlock", addrs)
	for range 2 {
		r.to("lock.acquire")
	}
	c := ours(t, addrs)
	got := later(t, c.Mutex("Q1"), "redisson_lock__channel:{Q1}", r.masters)
	before := c.Stats().Rounds
	time.Sleep(time.Second) // nothing is to happen in it
	if rounds := c.Stats().Rounds - before; rounds > 3 {
		t.Errorf("%d rounds in a second", rounds)
	}
	for r.heldOn("Q1") > 0 {
		r.to("lock.release")
	}
	taken(t, got)
}

// A Java reader joins ours after our writer has looked, and stays behind: the writer has to learn that it is Java's
// channel now that tells the end.
func TestReplay_javaReaderJoinsOurs_ourWriterWokenByItsRelease(t *testing.T) {
	played(t, "in time", redissontest.Masters(t, 1), func(t testing.TB, addrs []string) {
		r := newReplay(t, "read-blocks-write", addrs)
		rw := ours(t, addrs).RWMutex("R3")
		reader, err := rw.RLocker().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *redlock.Lease, 1)
		go func() {
			lease, err := rw.Locker().Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			got <- lease
		}()
		redissontest.Eventually(t, "our writer queues", func() bool { return r.masters[0].Exists(t.Context(), "redlock:queue:{R3}").Val() == 1 })
		settled(t, r.masters[0])
		r.to("read.acquire")
		if err := reader.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled(t, r.masters[0])
		r.to("read.release")
		freed := time.Now()
		taken(t, got)
		if late := time.Since(freed); late > time.Second {
			t.Errorf("taken %v after the release", late)
		}
	})
}

// A renewal of Java's watchdog keeps our waiter out beyond the TTL it was told first, which is 3 s.
func TestReplay_renewal_ourWaiterWaitsOn(t *testing.T) {
	addrs := redissontest.Masters(t, 3)
	for _, c := range []struct {
		scene, name, renew, release string
		nodes                       int
	}{
		{"watchdog", "L8", "lock.renew", "lock.release", 1},
		{"read-watchdog", "R5", "read.renew", "read.release", 1},
		{"redlock-watchdog", "Q2", "lock.renew", "lock.release", 3},
	} {
		t.Run(c.scene, func(t *testing.T) {
			t.Parallel()
			played(t, "in time", addrs, func(t testing.TB, addrs []string) {
				r := newReplay(t, c.scene, addrs)
				client := ours(t, addrs[:c.nodes])
				m, channel := redlock.Locker(client.Mutex(c.name)), "redisson_lock__channel:{"+c.name+"}"
				if r.rw() {
					m, channel = client.RWMutex(c.name).Locker(), "redisson_rwlock:{"+c.name+"}"
				}
				began := time.Now()
				for range c.nodes {
					r.next()
				}
				got := later(t, m, channel, r.masters[:c.nodes])
				after := func(d time.Duration) <-chan time.Time { return time.After(d - time.Since(began)) }
				<-after(1700 * time.Millisecond)
				for range c.nodes {
					r.to(c.renew)
				}
				select {
				case <-got:
					t.Fatalf("taken after %v", time.Since(began))
				case <-after(3500 * time.Millisecond):
				}
				for range c.nodes {
					r.to(c.release)
				}
				freed := time.Now()
				taken(t, got)
				t.Logf("taken %v after the release", time.Since(freed))
				if late := time.Since(freed); late > 500*time.Millisecond {
					t.Errorf("taken %v after the release", late)
				}
			})
		})
	}
}
