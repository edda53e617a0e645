// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// ledger has the leases of one lock, in the words of judge: who had it, and from when until when.
type ledger struct {
	mu    sync.Mutex
	spans []*span
}

// add notes a lease from now on. It ends with its context, or when its validity is over, whatever comes first. voucher is of the
// transfer by which it came, or 0.
func (l *ledger) add(lease *redlock.Lease, voucher int, who string) *span {
	s := &span{from: time.Now(), until: time.Now().Add(1000 * time.Hour), token: lease.Token(), voucher: voucher, who: who}
	l.mu.Lock()
	l.spans = append(l.spans, s)
	l.mu.Unlock()
	context.AfterFunc(lease.Context(), func() {
		now := time.Now()
		if until := lease.ValidUntil(); until.Before(now) {
			now = until
		}
		l.end(s, now)
	})
	return s
}

// end notes that a lease had ended by then.
func (l *ledger) end(s *span, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.Before(s.until) {
		s.until = at
	}
}

// judge checks that no two leases were valid at one time, and that tokens grew.
func (l *ledger) judge(t *testing.T) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []span
	for _, s := range l.spans {
		all = append(all, *s)
	}
	judge(t, all)
}

// nothingLeft waits until every vote, bar and place is over, and wants no key on the masters but the record.
func (c *cluster) nothingLeft() {
	c.t.Helper()
	time.Sleep(3 * redlock.DefaultMaxTTL)
	for _, m := range c.masters {
		if left := slices.DeleteFunc(m.Keys(), func(k string) bool { return k == protocol.RecordKey || strings.HasPrefix(k, "redlock:owner:") }); len(left) > 0 {
			c.t.Errorf("%s has %q", m.Name(), left)
		}
	}
}

// last has the next holder give the lock back. All leases are judged then, and nothing may be left.
func (l *ledger) last(t *testing.T, c *cluster, next *redlock.Lease) {
	t.Helper()
	l.add(next, 0, "the next")
	noErr(t, next.Unlock(t.Context()))
	l.judge(t)
	c.nothingLeft()
}

// everybody is the masters of a cluster of five.
var everybody = []int{0, 1, 2, 3, 4}

// The lease is transferred at any moment of its own renewal: before the extends are sent, while they are on their way, and while the
// answers are. Two masters have lost the vote, and the renewal puts it back there, by a connection that has broken: the put-back arrives
// after the transfer, when the adopter has the lock, or has given it back. The giver's votes must never be a quorum again.
func TestTogether_transferWhileRenewing(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	needs.Test(t)
	back := 0
	for _, kept := range []time.Duration{5 * time.Millisecond, 10 * time.Second} {
		for at := -10 * time.Millisecond; at <= 130*time.Millisecond; at += 10 * time.Millisecond {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				giver, heir, other := c.client(), c.client(), c.client()
				var l ledger
				lease := mustLock(t, giver.Mutex("x", redlock.WithTTL(9*time.Second), redlock.WithRenewal(3*time.Second)))
				l.add(lease, 0, "the giver")
				for i, way := range giver.Ways {
					if i < 2 {
						noErr(t, c.masters[i].Do(func(db *nodetest.DB) { db.Del("x") }))
					}
					way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
						switch cmd.Name {
						case "extend":
							f.Delay, f.ReplyDelay = 30*time.Millisecond, 30*time.Millisecond
						case "topup":
							f.Delay, f.Cut = 400*time.Millisecond, true
						case "client kill":
							f.Refuse = errNoKill
						}
						return f
					})
				}
				time.Sleep(2900*time.Millisecond + at) // the renewal begins between 2.7 and 3 s after the grant
				voucher := handedOff(t, lease)
				adopted, err := heir.Adopt(t.Context(), voucher)
				noErr(t, err)
				l.add(adopted, 1, "the heir")
				for range 10 {
					time.Sleep(kept / 10)
					wantErr(t, adopted.Err(), nil)
					_, err = other.Mutex("x").TryLock(t.Context())
					wantErr(t, err, redlock.ErrHeld)
					n := c.votes("x", lease.Holder())
					if back += n; n > 2 {
						t.Errorf("%v: the giver has %d votes again", at, n)
					}
				}
				noErr(t, adopted.Unlock(t.Context()))
				next, err := other.Mutex("x").Lock(t.Context())
				noErr(t, err)
				l.add(next, 0, "the next")
				time.Sleep(time.Second)
				wantErr(t, next.Err(), nil)
				noErr(t, next.Unlock(t.Context()))
				wantErr(t, lease.Err(), redlock.ErrReleased)
				l.judge(t)
				c.nothingLeft()
			})
		}
	}
	if back == 0 {
		t.Error("no put-back arrived after the transfer: the moments show nothing")
	}
}

// The lease is re-entered while it is transferred. Either the transfer is refused and both leases go on, or the re-entry is and the
// voucher is good. There is never an inner lease beside an adopter.
func TestTogether_transferWhileReentered(t *testing.T) {
	needs.NoRace(t, "a large simulation: others of TestTogether run with it")
	refused, transferred := 0, 0
	for at := time.Duration(0); at <= 150*time.Millisecond; at += 10 * time.Millisecond {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			giver, heir, other := c.client(), c.client(), c.client()
			var l ledger
			m := giver.Mutex("x", redlock.WithReentry())
			lease := mustLock(t, m)
			giver.faultOn("extend", nodetest.Fault{Delay: 30 * time.Millisecond, ReplyDelay: 30 * time.Millisecond}, everybody...)
			type entry struct {
				lease *redlock.Lease
				err   error
			}
			entered := make(chan entry, 1)
			go func() {
				time.Sleep(at)
				inner, err := m.Lock(lease.Context())
				entered <- entry{inner, err}
			}()
			time.Sleep(70 * time.Millisecond)
			voucher, err := lease.Transfer(t.Context())
			in := <-entered
			switch {
			case err == nil && in.err != nil:
				transferred++
				wantErr(t, in.err, redlock.ErrReleased)
				adopted, err := heir.Adopt(t.Context(), voucher)
				noErr(t, err)
				l.add(adopted, 1, "the heir")
				time.Sleep(20 * time.Second)
				noErr(t, adopted.Unlock(t.Context()))
			case err != nil && in.err == nil:
				refused++
				wantErr(t, err, redlock.ErrConfig)
				wantText(t, err, "re-entered")
				wantErr(t, lease.Err(), nil)
				l.add(lease, 0, "the holder")
				noErr(t, in.lease.Unlock(t.Context()))
				time.Sleep(20 * time.Second)
				noErr(t, lease.Unlock(t.Context()))
			default:
				t.Fatalf("%v: transferred: %v; re-entered: %v", at, err, in.err)
			}
			next := mustLock(t, other.Mutex("x"))
			l.last(t, c, next)
		})
	}
	if refused == 0 || transferred == 0 {
		t.Errorf("%d transfers were refused and %d re-entries: the moments show nothing", refused, transferred)
	}
}

// A lease that was re-entered is unlocked while it is transferred. The transfer is that of the lease, which is over: the inner one goes on.
func TestTogether_transferWhileUnlockedAndReentered(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, other := c.client(), c.client()
		var l ledger
		lease := mustLock(t, giver.Mutex("x"))
		inner, err := lease.Reenter(t.Context())
		noErr(t, err)
		l.add(inner, 0, "the inner lease")
		giver.faultOn("extend", nodetest.Fault{Delay: 30 * time.Millisecond, ReplyDelay: 30 * time.Millisecond}, everybody...)
		transferred := make(chan error)
		go func() {
			_, err := lease.Transfer(t.Context())
			transferred <- err
		}()
		time.Sleep(10 * time.Millisecond)
		noErr(t, lease.Unlock(t.Context()))
		wantErr(t, <-transferred, redlock.ErrReleased)
		time.Sleep(20 * time.Second)
		wantErr(t, inner.Err(), nil)
		noErr(t, inner.Unlock(t.Context()))
		next := mustLock(t, other.Mutex("x"))
		l.last(t, c, next)
	})
}

// The giver is closed at any moment of its transfer. If Transfer returned a voucher, that is good although its giver is gone. If not,
// the lock is free when the TTL is over.
func TestTogether_transferAndClose(t *testing.T) {
	vouchers, closed := 0, 0
	for at := time.Duration(0); at <= 80*time.Millisecond; at += 10 * time.Millisecond {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			giver, heir, other := c.client(), c.client(), c.client()
			var l ledger
			lease := mustLock(t, giver.Mutex("x"))
			l.add(lease, 0, "the giver")
			giver.faultOn("extend", nodetest.Fault{Delay: 30 * time.Millisecond, ReplyDelay: 30 * time.Millisecond}, everybody...)
			ended := make(chan error, 1)
			go func() {
				time.Sleep(at)
				ended <- giver.Close()
			}()
			begun := time.Now()
			voucher, err := lease.Transfer(t.Context())
			noErr(t, <-ended)
			if err == nil {
				vouchers++
				adopted, err := heir.Adopt(t.Context(), voucher)
				noErr(t, err)
				l.add(adopted, 1, "the heir")
				time.Sleep(20 * time.Second)
				noErr(t, adopted.Unlock(t.Context()))
			} else {
				closed++
				wantErr(t, err, redlock.ErrClosed)
				wantErr(t, lease.Err(), redlock.ErrClosed)
			}
			next, err := other.Mutex("x").Lock(t.Context())
			noErr(t, err)
			if took := time.Since(begun); voucher == "" && took > redlock.DefaultTTL+time.Second {
				t.Errorf("%v: free after %v", at, took)
			}
			l.last(t, c, next)
		})
	}
	if vouchers == 0 || closed == 0 {
		t.Errorf("%d vouchers, %d times closed before: the moments show nothing", vouchers, closed)
	}
}

// A lease that is transferred while Shutdown waits for its holder ends that wait, and the adopter has it.
func TestTogether_transferWhileShuttingDown(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir := c.client(), c.client()
		lease := mustLock(t, giver.Mutex("x"))
		shut := make(chan error, 1)
		go func() { shut <- giver.Shutdown(context.Background()) }()
		time.Sleep(5 * time.Second)
		voucher := handedOff(t, lease)
		begun := time.Now()
		noErr(t, <-shut)
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("Shutdown waited for %v", took)
		}
		adopted, err := heir.Adopt(t.Context(), voucher)
		noErr(t, err)
		time.Sleep(20 * time.Second)
		wantErr(t, adopted.Err(), nil)
		noErr(t, adopted.Unlock(t.Context()))
		// A client that is shut down adopts nothing.
		lease = mustLock(t, heir.Mutex("x"))
		shut = make(chan error, 1)
		go func() { shut <- heir.Shutdown(context.Background()) }()
		time.Sleep(time.Second)
		voucher = handedOff(t, lease)
		_, err = heir.Adopt(t.Context(), voucher)
		wantErr(t, err, redlock.ErrClosed)
		noErr(t, <-shut)
		c.nothingLeft()
	})
}

// The lease is adopted at any moment of a change of masters. Nobody of the new list has the lock while the adopter's validity lasts, a
// voucher of the old list is worth nothing to a client of the new one, and the adopter is told when its masters are gone.
func TestTogether_transferOverAChangeOfMasters(t *testing.T) {
	first, second := []int{0, 1, 2}, []int{2, 3, 4}
	adoptedOnes, refused := 0, 0
	for _, at := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 9 * time.Second, 25 * time.Second, 29 * time.Second, 32 * time.Second} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.recovery = true
			list, done := c.list(first...)
			noErr(t, admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked))
			done()
			giver, heir := c.on(first...), c.on(first...)
			var l ledger
			lease := mustLock(t, giver.Mutex("x", redlock.WithTTL(redlock.DefaultMaxTTL)))
			l.add(lease, 0, "the giver")
			voucher := handedOff(t, lease)
			changed := make(chan *redlock.Client, 1)
			go func() {
				c.reconfigure(first, second)
				next := c.on(second...)
				lease, err := next.Mutex("x").Lock(context.Background())
				noErr(t, err)
				l.add(lease, 0, "of the new list")
				_, err = next.Adopt(context.Background(), voucher)
				wantErr(t, err, redlock.ErrConfig)
				wantText(t, err, "of other masters")
				noErr(t, lease.Unlock(context.Background()))
				changed <- next
			}()
			time.Sleep(at)
			adopted, err := heir.Adopt(t.Context(), voucher)
			if err == nil {
				adoptedOnes++
				l.add(adopted, 1, "the heir")
			} else {
				refused++
				wantErr(t, err, redlock.ErrRecovering)
			}
			<-changed
			if err == nil {
				synctest.Wait()
				wantErr(t, adopted.Err(), redlock.ErrLost)
				wantErr(t, adopted.Unlock(t.Context()), redlock.ErrLost)
			}
			_, err = heir.Adopt(t.Context(), voucher)
			if err == nil {
				t.Errorf("%v: adopted again", at)
			}
			l.judge(t)
			c.nothingLeft()
		})
	}
	if adoptedOnes == 0 || refused == 0 {
		t.Errorf("%d were adopted, %d were not: the moments show nothing", adoptedOnes, refused)
	}
}
