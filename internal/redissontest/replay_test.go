// SPDX-License-Identifier: Apache-2.0

package redissontest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/internal/redissontest/wire"
	"github.com/redlock-go/redlock/redlock"
)

// ours opens a client of the masters.
func ours(t *testing.T, addrs []string, opts ...redlock.Option) *redlock.Client {
	t.Helper()
	var urls []string
	for _, addr := range addrs {
		urls = append(urls, "redis://"+addr)
	}
	opts = append(opts, redlock.WithUnsafeRecoveryOff(), redlock.WithNodeCount(len(addrs)))
	c, err := redlock.Open(urls, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func sceneOf(t *testing.T, name string) wire.Scene {
	t.Helper()
	scenes, err := redissontest.Scenes()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(scenes, func(s wire.Scene) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no scene %s", name)
	}
	return scenes[i]
}

// place is one lock on one master.
type place struct {
	node int // from 1
	name string
}

// java is what the Java clients of a scene hold at one place by their own account, that is by the answers they got.
type java struct {
	owners map[string]int // hold counts; a writer's name ends in :write
	ttl    time.Duration  // as last set,
	set    time.Time      // then
}

func (j *java) held() bool { return len(j.owners) > 0 }

// written says whether a reader has to stay out.
func (j *java) written() bool {
	for owner := range j.owners {
		if strings.HasSuffix(owner, ":write") {
			return true
		}
	}
	return false
}

// replay plays a scene's effects on masters, one transaction a call, and keeps Java's account.
type replay struct {
	t       *testing.T
	scene   wire.Scene
	rest    []wire.Effect // not played yet
	masters []*redis.Client
	java    map[place]*java
}

func newReplay(t *testing.T, scene string, addrs []string) *replay {
	t.Helper()
	r := &replay{t: t, scene: sceneOf(t, scene), java: map[place]*java{}}
	r.rest = wire.Effects(r.scene)
	for _, addr := range addrs {
		r.masters = append(r.masters, redissontest.Client(t, addr))
	}
	for _, e := range r.scene.Events {
		if e.Kind == wire.Script {
			r.java[place{e.Node, e.Keys[0]}] = &java{owners: map[string]int{}}
		}
	}
	return r
}

// rw says whether the scene is about a read-write lock.
func (r *replay) rw() bool {
	return slices.ContainsFunc(r.scene.Events, func(e wire.Event) bool {
		return strings.HasPrefix(e.Role, "read.") || strings.HasPrefix(e.Role, "write.")
	})
}

// next plays the next call that had an effect. Its role is empty for a plain request, and ok false at the end.
func (r *replay) next() (role string, ok bool) {
	r.t.Helper()
	if len(r.rest) == 0 {
		return "", false
	}
	n := 1
	for n < len(r.rest) && r.rest[n].Call == r.rest[0].Call {
		n++
	}
	call := r.scene.Events[r.rest[0].Call]
	if strings.HasSuffix(call.Role, ".acquire") {
		r.expire(call)
	}
	r.play(r.rest[:n])
	r.account(call, r.reply(r.rest[0].Call), r.rest[:n])
	r.rest = r.rest[n:]
	return call.Role, true
}

// to plays on until a call of that role is played.
func (r *replay) to(role string) {
	r.t.Helper()
	for {
		played, ok := r.next()
		if !ok {
			r.t.Fatalf("%s has no further %s", r.scene.Name, role)
		}
		if played == role {
			return
		}
	}
}

func (r *replay) play(call []wire.Effect) {
	r.t.Helper()
	_, err := r.masters[call[0].Node-1].TxPipelined(r.t.Context(), func(p redis.Pipeliner) error {
		for _, e := range call {
			args := make([]any, len(e.Args))
			for i, a := range e.Args {
				args[i] = a
			}
			p.Do(r.t.Context(), args...)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: LPOP of an empty queue
		r.t.Fatalf("%s, %v: %v", r.scene.Name, call, err)
	}
}

// reply is what a call's client was answered.
func (r *replay) reply(call int) any {
	c := r.scene.Events[call]
	for _, e := range r.scene.Events[call+1:] {
		if e.Kind == wire.Reply && e.Node == c.Node && e.Conn == c.Conn {
			return e.Reply
		}
	}
	r.t.Fatalf("%s: call %d has no reply", r.scene.Name, call)
	return nil
}

// expire waits for the end of an exclusive hold that its owner left to its TTL, where the recording goes on after it.
func (r *replay) expire(call wire.Event) {
	at := place{call.Node, call.Keys[0]}
	j := r.java[at]
	owner := call.Args[1]
	if strings.HasPrefix(call.Role, "read.") || strings.HasPrefix(call.Role, "fair.") || !j.held() || j.owners[owner] > 0 {
		return
	}
	redissontest.Eventually(r.t, "the lock expires", func() bool {
		return r.masters[at.node-1].Exists(r.t.Context(), at.name).Val() == 0
	})
	clear(j.owners)
}

// account takes a call into Java's account.
func (r *replay) account(call wire.Event, reply any, effects []wire.Effect) {
	if call.Kind != wire.Script {
		return
	}
	j := r.java[place{call.Node, call.Keys[0]}]
	side, verb, _ := strings.Cut(call.Role, ".")
	switch verb {
	case "acquire":
		if token, ok := reply.([]any); reply == nil || ok && token[0] == int64(-1) {
			j.owners[call.Args[1]]++
		}
	case "release":
		owner := call.Args[2]
		if side == "read" {
			owner = call.Args[1]
		}
		if j.owners[owner]--; j.owners[owner] == 0 {
			delete(j.owners, owner)
		}
	case "force-release":
		clear(j.owners)
	}
	for _, e := range effects {
		if e.Args[0] == "pexpire" && e.Args[1] == call.Keys[0] {
			ms, _ := strconv.Atoi(e.Args[2])
			j.ttl, j.set = time.Duration(ms)*time.Millisecond, time.Now()
		}
	}
}

// wantTry tries our lock once and says whether that came out as it should. A refusal must tell Java's TTL.
func wantTry(t *testing.T, what string, m *redlock.Mutex, want bool, j *java) {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	// The quorum lock of the step before got its majority, and its Unlock: the third master may have both to do yet.
	for deadline := time.Now().Add(time.Second); want && errors.Is(err, redlock.ErrHeld) && time.Now().Before(deadline); {
		lease, err = m.TryLock(t.Context())
	}
	if err == nil {
		if !want {
			t.Errorf("%s: granted beside %v", what, slices.Collect(maps.Keys(j.owners)))
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Errorf("%s: unlock: %v", what, err)
		}
		return
	}
	var round *redlock.RoundError
	if want || !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &round) {
		t.Errorf("%s: %v", what, err)
		return
	}
	// A TTL that a script took from another key's is the recording's, some ms off the replay's, whose masters may also
	// be late on a busy machine.
	const off = 300 * time.Millisecond
	if least := j.ttl - time.Since(j.set) - off; round.RetryAfter < least || round.RetryAfter > j.ttl+off {
		t.Errorf("%s: retry after %v, Java has set %v %v ago", what, round.RetryAfter, j.ttl, time.Since(j.set))
	}
}

// After each call of each scene our locks on the same master, and our quorum lock on all three, agree with what the
// Java clients believed then.
func TestReplay_everyScene_oursRefusedExactlyWhileJavaHolds(t *testing.T) {
	addrs := redissontest.Masters(t, 3)
	quorum := ours(t, addrs)
	var each []*redlock.Client
	for i := range addrs {
		each = append(each, ours(t, addrs[i:i+1]))
	}
	scenes, err := redissontest.Scenes()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, scene := range scenes {
		t.Run(scene.Name, func(t *testing.T) {
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
					wantTry(t, what+", our reader", rw.Reader(), !j.written(), j)
					wantTry(t, what+", our writer", rw.Writer(), !j.held(), j)
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
func settled(t *testing.T, master *redis.Client) {
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
func later(t *testing.T, m *redlock.Mutex, channel string, masters []*redis.Client) <-chan *redlock.Lease {
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

func taken(t *testing.T, got <-chan *redlock.Lease) {
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
		t.Run(c.scene+" "+c.side, func(t *testing.T) {
			r := newReplay(t, c.scene, addrs)
			client := ours(t, addrs[:c.nodes])
			m, channel := client.Mutex(c.name), "redisson_lock__channel:{"+c.name+"}"
			if c.side != "plain" {
				rw := client.RWMutex(c.name)
				m, channel = rw.Writer(), "redisson_rwlock:{"+c.name+"}"
				if c.side == "reader" {
					m = rw.Reader()
				}
			}
			for n := 0; n < c.acquires; {
				if role, _ := r.next(); strings.HasSuffix(role, ".acquire") {
					n++
				}
			}
			got := later(t, m, channel, r.masters[:c.nodes])
			j := r.java[place{1, c.name}]
			for n := 0; n < c.nodes; {
				select {
				case <-got:
					t.Fatalf("taken beside %v", j.owners)
				default:
				}
				if r.to(c.release); !r.held(c.name) {
					n = c.nodes
				}
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

// held says whether Java holds the lock anywhere.
func (r *replay) held(name string) bool {
	for at, j := range r.java {
		if at.name == name && j.held() {
			return true
		}
	}
	return false
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
	for r.held("Q1") {
		r.to("lock.release")
	}
	taken(t, got)
}

// A Java reader joins ours after our writer has looked, and stays behind: the writer has to learn that it is Java's
// channel now that tells the end.
func TestReplay_javaReaderJoinsOurs_ourWriterWokenByItsRelease(t *testing.T) {
	addrs := redissontest.Masters(t, 1)
	r := newReplay(t, "read-blocks-write", addrs)
	rw := ours(t, addrs).RWMutex("R3")
	reader, err := rw.Reader().Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *redlock.Lease, 1)
	go func() {
		lease, err := rw.Writer().Lock(t.Context())
		if err != nil {
			t.Error(err)
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
			r := newReplay(t, c.scene, addrs)
			client := ours(t, addrs[:c.nodes])
			m, channel := client.Mutex(c.name), "redisson_lock__channel:{"+c.name+"}"
			if r.rw() {
				m, channel = client.RWMutex(c.name).Writer(), "redisson_rwlock:{"+c.name+"}"
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
	}
}

// owners are what we and Java call a holder, both <uuid>:<number>.
var owners = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+`)

// shape is what a lock's clients have left on a master: keys, values and TTLs in seconds, rounded up. Left out are our
// own keys, which Java never sees, and Java's latches, which only their writer reads.
func shape(t *testing.T, master *redis.Client) []string {
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
func hear(t *testing.T, master *redis.Client) *told {
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
func (h *told) since(t *testing.T, master *redis.Client) (lines []string) {
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
	read := func(s *stage) error { return s.push(s.client.RWMutex(s.name).Reader().Lock(t.Context())) }
	write := func(s *stage) error { return s.push(s.client.RWMutex(s.name).Writer().Lock(t.Context())) }
	twice := func(s *stage) error { return errors.Join(plain(s), s.push(s.leases[0].Reenter(t.Context()))) }
	downgrade := func(s *stage) error {
		return s.push(s.client.RWMutex(s.name).Reader().Lock(s.leases[0].Context()))
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
		t.Run(c.scene, func(t *testing.T) {
			addrs := redissontest.Masters(t, 2)
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
