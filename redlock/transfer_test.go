// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	vouchers "github.com/redlock-go/redlock/internal/lock/voucher"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

func handedOff(t *testing.T, l *redlock.Lease) string {
	t.Helper()
	voucher, err := l.Transfer(t.Context())
	noErr(t, err)
	return voucher
}

func TestHandoff_adopted_oneLeaseThatGoesOn(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir, other := c.client(), c.client(), c.client()
		l := locked(t, giver.Mutex("x"))
		voucher := handedOff(t, l)
		if l.Context().Err() == nil {
			t.Error("the giver's context goes on")
		}
		wantIs(t, l.Err(), redlock.ErrReleased)
		wantIs(t, l.Unlock(t.Context()), redlock.ErrReleased)
		wantIs(t, l.Extend(t.Context()), redlock.ErrReleased)
		_, err := l.Transfer(t.Context())
		wantIs(t, err, redlock.ErrReleased)
		waits := make(chan *redlock.Lease, 1)
		go func() {
			next, err := other.Mutex("x").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			waits <- next
		}()
		time.Sleep(5 * time.Second) // the voucher travels
		adopted, err := heir.Adopt(t.Context(), voucher)
		noErr(t, err)
		if adopted.Token() <= l.Token() || adopted.Name() != "x" || adopted.Holder() == l.Holder() {
			t.Errorf("token %d, name %q, holder %s", adopted.Token(), adopted.Name(), adopted.Holder())
		}
		_, err = heir.Adopt(t.Context(), voucher)
		wantIs(t, err, redlock.ErrLost)
		wantText(t, err, "used before")
		time.Sleep(30 * time.Second) // renewed
		noErr(t, adopted.Err())
		select {
		case <-waits:
			t.Fatal("the waiter has the lock")
		default:
		}
		noErr(t, adopted.Unlock(t.Context()))
		next := <-waits
		if next.Token() <= adopted.Token() {
			t.Errorf("token %d after %d", next.Token(), adopted.Token())
		}
		noErr(t, next.Unlock(t.Context()))
	})
}

func TestHandoff_notAdopted_endsWithTheTTL(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		voucher := handedOff(t, locked(t, c.client().Mutex("x")))
		begun := time.Now()
		l := locked(t, c.client().Mutex("x"))
		if wait := time.Since(begun); wait < 9*time.Second || wait > 13*time.Second {
			t.Errorf("free after %v", wait)
		}
		_, err := c.client().Adopt(t.Context(), voucher)
		wantIs(t, err, redlock.ErrLost)
		noErr(t, l.Unlock(t.Context()))
	})
}

// A vote that was put back proves nothing about the time before: its master is not in the voucher, for the put-back may come once
// more from a connection that broke.
func TestHandoff_voteWasPutBack_masterIsNotAsked(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir := c.client(), c.client()
		l := locked(t, giver.Mutex("x"))
		drop := func(n int) {
			synctest.Wait()
			for _, m := range c.masters[:n] {
				noErr(t, m.Do(func(db *nodetest.DB) { db.Del("x") }))
			}
			noErr(t, l.Extend(t.Context()))
			time.Sleep(time.Second)
		}
		drop(2)
		voucher := handedOff(t, l)
		var mu sync.Mutex
		var asked []int
		for i, way := range heir.Ways {
			way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if cmd.Name == "adopt" {
					asked = append(asked, i)
				}
				return nodetest.Fault{}
			})
		}
		adopted, err := heir.Adopt(t.Context(), voucher)
		noErr(t, err)
		synctest.Wait()
		mu.Lock()
		slices.Sort(asked)
		if !slices.Equal(asked, []int{2, 3, 4}) {
			t.Errorf("asked %v", asked)
		}
		mu.Unlock()
		noErr(t, adopted.Unlock(t.Context()))

		// With more of them there is no quorum that never lost the vote.
		l = locked(t, giver.Mutex("x"))
		drop(2)
		noErr(t, c.masters[4].Do(func(db *nodetest.DB) { db.Del("x") }))
		noErr(t, l.Extend(t.Context()))
		time.Sleep(time.Second)
		_, err = l.Transfer(t.Context())
		wantIs(t, err, redlock.ErrUnreachable)
		noErr(t, l.Err())
		noErr(t, l.Unlock(t.Context()))
	})
}

// The masters restart with the data of the moment of the handoff. In it the vote of the voucher is there, although it was adopted
// and released, and the lock was taken by another. Such masters do not let the voucher be used again.
func TestAdopt_mastersWithOlderData_refuse(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		voucher := handedOff(t, locked(t, c.client().Mutex("x")))
		var before []*nodetest.Data
		for _, m := range c.masters {
			before = append(before, m.Snapshot())
		}
		adopted, err := c.client().Adopt(t.Context(), voucher)
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context()))
		held := locked(t, c.client().Mutex("x"))
		second := c.client()
		for i, m := range c.masters {
			m.Promote(before[i])
			m.Restart()
		}
		for time.Until(held.ValidUntil()) > 0 {
			if l, err := second.Adopt(t.Context(), voucher); err == nil {
				t.Fatalf("adopted with token %d, while %d is held", l.Token(), held.Token())
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestHandoff_minimumHold_countsOn(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		begun := time.Now()
		voucher := handedOff(t, locked(t, c.client().Mutex("x", redlock.WithMinHold(time.Minute))))
		adopted, err := c.client().Adopt(t.Context(), voucher)
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context()))
		noErr(t, locked(t, c.client().Mutex("x")).Unlock(t.Context()))
		if wait := time.Since(begun); wait < time.Minute || wait > 63*time.Second {
			t.Errorf("free after %v", wait)
		}
	})
}

// A lease that was adopted may be of a lock that rests, also in a line whose callers take the lock over from one another: who is next waits until the
// rest is over.
func TestHandoff_minimumHoldInALineOfBriefHolds_countsOn(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		first := locked(t, c.client().Mutex("x"))
		begun := time.Now()
		brief := a.waits(t.Context())
		rests := make(chan *redlock.Lease, 1)
		go func() { rests <- locked(t, a.Mutex("x", redlock.WithMinHold(time.Minute))) }()
		synctest.Wait()
		next := a.waits(t.Context())
		noErr(t, first.Unlock(t.Context()))
		noErr(t, (<-brief).Unlock(t.Context()))
		adopted, err := a.Adopt(t.Context(), handedOff(t, <-rests))
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context()))
		noErr(t, (<-next).Unlock(t.Context()))
		if wait := time.Since(begun); wait < time.Minute || wait > 63*time.Second {
			t.Errorf("free after %v", wait)
		}
	})
}

func TestHandoff_badInput_refused(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		c.init(redlock.WithNamespace("a"))
		client, heir := c.client(), c.client()
		_, err := locked(t, client.RWMutex("rw").RLocker()).Transfer(t.Context())
		wantIs(t, err, redlock.ErrConfig)
		l := locked(t, client.Mutex("x"))
		inner, err := l.Reenter(t.Context())
		noErr(t, err)
		_, err = l.Transfer(t.Context())
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, "re-entered")
		noErr(t, inner.Unlock(t.Context()))
		var none context.Context
		_, err = l.Transfer(none)
		wantIs(t, err, redlock.ErrConfig)
		_, err = (*redlock.Lease)(nil).Transfer(t.Context())
		wantIs(t, err, redlock.ErrConfig)
		voucher := handedOff(t, l)
		if strings.Trim(voucher, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Errorf("the voucher is %q", voucher)
		}
		for _, bad := range []string{"", "x", voucher[1:], voucher[:len(voucher)-3], voucher + "!", "redlock1.e30"} {
			_, err := heir.Adopt(t.Context(), bad)
			wantIs(t, err, redlock.ErrConfig)
			wantText(t, err, "voucher")
		}
		_, err = c.client(redlock.WithNamespace("a")).Adopt(t.Context(), voucher)
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, `namespace ""`, `"a"`)
		_, err = heir.Adopt(t.Context(), voucher, redlock.WithTTL(time.Hour))
		wantIs(t, err, redlock.ErrConfig)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = heir.Adopt(cancelled, voucher)
		wantIs(t, err, context.Canceled)
		adopted, err := heir.Adopt(t.Context(), voucher) // none of these has used it
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context()))
	})
}

// Whoever can hand in a voucher can write any token into it. It is proposed once: the client's later proposals are the time of day, as before,
// and no master needs to ask for its own.
func TestAdopt_forgedToken_laterProposalsAreTheTimeOfDay(t *testing.T) {
	for _, refused := range []bool{true, false} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			giver, heir := c.client(), c.client()
			given := locked(t, giver.Mutex("x"))
			forged, err := vouchers.Parse(handedOff(t, given))
			noErr(t, err)
			forged.Token = counting.MaxToken
			if refused {
				forged.Holder = "nobody"
			}
			adopted, err := heir.Adopt(t.Context(), forged.String())
			if refused {
				wantIs(t, err, redlock.ErrLost)
			} else {
				noErr(t, err)
				if adopted.Token() <= given.Token() {
					t.Errorf("token %d after %d", adopted.Token(), given.Token())
				}
				noErr(t, adopted.Unlock(t.Context()))
			}
			time.Sleep(time.Minute)
			now := time.Now().UnixMicro()
			l := locked(t, heir.Mutex("y"))
			if l.Token() < now {
				t.Errorf("refused %v: token %d, want at least the time of day, %d", refused, l.Token(), now)
			}
			noErr(t, l.Unlock(t.Context()))
		})
	}
}

// span is when a lease was believed in.
type span struct {
	from, until time.Time
	token       int64
	voucher     int // which handoff it is of; 0: it was locked
	who         string
}

// Tickets are given to several processes at once, whose commands are slow, lost, or executed without an answer; others take the
// lock meanwhile. No two leases overlap, a voucher gives one lease at most, and a token is larger than all before.
//
// Most vouchers are lost to the faults: in 60 runs of one seed each 10 had none that was adopted, and the mean was 1.5. So it goes on until one was: 12
// runs without one come once in 10^9 times.
func TestAdopt_faults_oneAtMost(t *testing.T) {
	adopted, least := 0, 1
	if needs.InSoak(t) {
		least = 500
	}
	for seed := range replay.Until(t, least+11, func(runs int) bool { return runs >= least && adopted >= least }) {
		simulate(t, func(t *testing.T, c *cluster) {
			n := adoptWithFaults(t, c, seed)
			t.Logf("%d adopted", n)
			adopted += n
		})
	}
	if replay.Listed() && adopted < least {
		t.Errorf("only %d vouchers were adopted", adopted)
	}
}

func adoptWithFaults(t *testing.T, c *cluster, seed uint64) (adopted int) {
	c.init()
	var mu sync.Mutex
	var spans []span
	note := func(l *redlock.Lease, voucher int, who string) (end func()) {
		s := span{from: time.Now(), token: l.Token(), voucher: voucher, who: who}
		return func() {
			s.until = time.Now()
			if until := l.ValidUntil(); until.Before(s.until) {
				s.until = until
			}
			mu.Lock()
			spans = append(spans, s)
			mu.Unlock()
		}
	}
	rough := func(m *member, rnd *rand.Rand) {
		for i, way := range m.Ways {
			rnd := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i))) // the lanes send by themselves
			var mu sync.Mutex                                     // a lane has two connections
			way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
				mu.Lock()
				defer mu.Unlock()
				f.Delay = time.Duration(rnd.IntN(5)) * time.Millisecond
				switch {
				case cmd.Name != "adopt" && cmd.Name != "release" && cmd.Name != "extend":
				case rnd.IntN(25) == 0:
					f.Lose = nodetest.LoseReply
				case rnd.IntN(25) == 0:
					f.Lose = nodetest.LoseCommand
				case rnd.IntN(25) == 0:
					f.Delay = time.Duration(rnd.IntN(3000)) * time.Millisecond
				}
				return f
			})
		}
	}
	opts := []redlock.Option{redlock.WithTTL(2 * time.Second), redlock.WithNodeTimeout(50 * time.Millisecond)}
	var members []*member
	for i := range uint64(4) {
		m := c.client(opts...)
		rough(m, rand.New(rand.NewPCG(seed, i)))
		members = append(members, m)
	}
	var work sync.WaitGroup
	stop := make(chan struct{})
	work.Go(func() { // another, who takes the lock as usual
		m := c.client(opts...)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if l, err := m.Mutex("x").TryLock(t.Context()); err == nil {
				end := note(l, 0, "other")
				time.Sleep(20 * time.Millisecond)
				end()
				_ = l.Unlock(t.Context())
			}
		}
	})
	for round := 1; round <= 10; round++ {
		giver := members[0]
		l, err := giver.Mutex("x", redlock.WithMaxWait(10*time.Second)).Lock(t.Context())
		if err != nil {
			continue
		}
		end := note(l, 0, "giver")
		voucher, err := l.Transfer(t.Context())
		end()
		if err != nil {
			_ = l.Unlock(t.Context())
			continue
		}
		var heirs sync.WaitGroup
		for i, heir := range members[1:] {
			heirs.Go(func() {
				for range 2 {
					time.Sleep(time.Duration(i*(1+19*(round%2))) * time.Millisecond) // every other time they meet
					l, err := heir.Adopt(t.Context(), voucher)
					if err != nil {
						continue
					}
					end := note(l, round, fmt.Sprint("heir ", i))
					time.Sleep(1500 * time.Millisecond)
					end()
					_ = l.Unlock(t.Context())
				}
			})
		}
		heirs.Wait()
	}
	close(stop)
	work.Wait()
	return judge(t, spans)
}

// judge checks the spans of one lock: no two overlap, tokens grow, and each voucher was adopted once at most. It returns how many were adopted.
func judge(t *testing.T, spans []span) (adopted int) {
	t.Helper()
	adopted, wrong := overlaps(spans)
	for _, text := range wrong {
		t.Error(text)
	}
	return adopted
}

// overlaps is what is wrong with the leases of one lock: two at one time, a token that is not larger than those before, a voucher that was
// adopted twice.
func overlaps(spans []span) (adopted int, wrong []string) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
	used := map[int]bool{}
	for i, s := range spans {
		if used[s.voucher] && s.voucher != 0 {
			wrong = append(wrong, fmt.Sprintf("voucher %d was adopted twice", s.voucher))
		}
		used[s.voucher] = true
		if s.voucher != 0 {
			adopted++
		}
		if i == 0 {
			continue
		}
		before := spans[i-1]
		if s.from.Before(before.until) {
			wrong = append(wrong, fmt.Sprintf("%s has it from %v, %s until %v", s.who, s.from, before.who, before.until))
		}
		if s.token <= before.token {
			wrong = append(wrong, fmt.Sprintf("%s has token %d, after %d of %s", s.who, s.token, before.token, before.who))
		}
	}
	return adopted, wrong
}

// On real masters, and by the errors of callers.
func TestHandoff_realMasters_oneOfManyAdopts(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	giver := ms.begin()
	defer giver.Close()
	l := locked(t, giver.Mutex("x"))
	settled(t, l, 5)
	voucher := handedOff(t, l)
	var won []*redlock.Lease
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		heir := ms.open()
		defer heir.Close()
		wg.Go(func() {
			adopted, err := heir.Adopt(context.Background(), voucher)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, adopted)
			} else if !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrUnreachable) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) > 1 {
		t.Fatalf("%d have adopted one voucher", len(won))
	}
	for _, adopted := range won {
		if adopted.Token() <= l.Token() {
			t.Errorf("token %d, want one above %d", adopted.Token(), l.Token())
		}
		noErr(t, adopted.Extend(t.Context()))
		noErr(t, adopted.Unlock(t.Context()))
	}
	one := handedOff(t, locked(t, giver.Mutex("y")))
	adopted, err := ms.open().Adopt(t.Context(), one)
	noErr(t, err)
	noErr(t, adopted.Unlock(t.Context()))
	soon(t, "nothing is left", func() bool { return len(ms.keys("y")) == 0 })
}
