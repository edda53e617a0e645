// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/node"
)

const (
	handLock  = "l"
	handQueue = "redlock:queue:{l}"
	alice     = "11111111-1111-8111-8111-111111111111"
	bob       = "22222222-2222-8222-8222-222222222222"
	carol     = "33333333-3333-8333-8333-333333333333"
	liveness  = 3 * time.Second
)

// queue is a master with a client that everybody uses, and what the master published.
type queue struct {
	*client
	t    *testing.T
	m    *Master
	said []string
}

// withQueue runs fn on a master whose record has a voting state, with a clock of its own.
func withQueue(t *testing.T, fn func(q *queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t: t, m: NewMaster("m")}
		q.m.SetIdentity(protocol.Identity{RunID: "aaaaaaaaaaaaaaaa", Role: "master", Eviction: "noeviction"})
		q.m.Subscribe(func(channel, payload string) {
			if !ofCheck(channel) {
				q.said = append(q.said, strings.TrimPrefix(channel, "redlock:wake:")+" "+payload)
			}
		})
		q.state(membership.Voting, 1)
		q.client = dialState(t, q.m, votingState(1).Epoch.String())
		fn(q)
	})
}

func votingState(epoch int64) membership.RecordState {
	return membership.RecordState{Epoch: membership.Epoch{Number: epoch, ID: 0xe}, Incarnation: "aaaaaaaaaaaaaaaa.", Phase: membership.Voting}
}

// state sets the record's state.
func (q *queue) state(phase membership.Phase, epoch int64) {
	rs := votingState(epoch)
	rs.Phase = phase
	_ = q.m.Do(func(db *DB) { db.HSet(protocol.RecordKey, "state", rs.String()) })
}

// acquire asks for the lock, with a place of that ticket.
func (q *queue) acquire(holder string, ticket int64, change ...func(*protocol.Request)) protocol.Reply {
	r := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(handLock, protocol.Plain), Holder: holder, TTL: 10 * time.Second, Token: 1,
		Wait: &protocol.Wait{Ticket: ticket, Liveness: liveness}}
	for _, f := range change {
		f(&r)
	}
	return q.ask(r)
}

// release gives back what the holder has, and may hand the lock on.
func (q *queue) release(holder string, change ...func(*protocol.Request)) protocol.Reply {
	r := protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock(handLock, protocol.Plain), Holder: holder, Hand: liveness, Token: 1}
	for _, f := range change {
		f(&r)
	}
	return q.ask(r)
}

// places are the members of the queue, first to last.
func (q *queue) places() (places []string) {
	_ = q.m.Do(func(db *DB) { places = db.ZRange(handQueue, -1) })
	return places
}

func (q *queue) counter() (value string) {
	return q.m.field(protocol.RecordKey, protocol.NewLock(handLock, protocol.Plain).Counter)
}

// hands are the messages since the last call, but for those on Redisson's channel.
func (q *queue) hands() (hands []protocol.Hand, wakes []string) {
	for _, message := range q.said {
		client, payload, _ := strings.Cut(message, " ")
		if h, ok := protocol.ParseHand(payload); ok {
			hands = append(hands, h)
		} else if !strings.HasPrefix(client, "redisson") {
			wakes = append(wakes, client)
		}
	}
	q.said = nil
	return hands, wakes
}

// A release hands the vote to the first place: counter, vote, TTL and message fit each other.
func TestHand_release_votesForTheHead(t *testing.T) {
	for _, mode := range []protocol.Mode{protocol.Plain, protocol.Write} {
		t.Run(string(mode), func(t *testing.T) {
			withQueue(t, func(q *queue) {
				of := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, mode) }
				if r := q.acquire(alice+":1", 5, of); r.Token != 1 {
					t.Fatalf("%+v", r)
				}
				time.Sleep(time.Second)
				stamp := q.clock.Elapsed()
				q.acquire(carol+":9", 30, of)
				if r := q.acquire(bob+":7", 20, of); r.Outcome != protocol.Held || r.Ahead != 0 {
					t.Fatalf("%+v", r)
				}
				time.Sleep(time.Second)
				q.hands()
				if r := q.release(alice+":1", of); r.Outcome != protocol.Granted {
					t.Fatalf("%+v", r)
				}
				field := protocol.NewLock(handLock, mode).Field(bob + ":7")
				want := protocol.Hand{Key: handLock, Field: field, Vote: 2, Stamp: stamp, TTL: liveness, State: votingState(1).String()}
				if got, wakes := q.hands(); len(got) != 1 || got[0] != want || len(wakes) != 0 {
					t.Errorf("messages %+v and wakes %q, want %+v", got, wakes, want)
				}
				if q.m.field(handLock, field) != "1" || q.m.PTTL(handLock) != liveness || q.counter() != "2" {
					t.Errorf("the vote is %q with a TTL of %v, the counter %s", q.m.field(handLock, field), q.m.PTTL(handLock), q.counter())
				}
				if got := q.places(); len(got) != 1 || !strings.HasPrefix(got[0], carol) {
					t.Errorf("in the queue: %q", got)
				}
				// Its owner releases without another word, and the next has it.
				q.release(bob+":7", of)
				if got, _ := q.hands(); len(got) != 1 || got[0].Vote != 3 || !strings.HasPrefix(got[0].Field, carol) {
					t.Errorf("then %+v", got)
				}
			})
		})
	}
}

// Each of these leaves a free lock free, and wakes the head: messages carry no TIME, and a vote
// for a place of another life of the master may be the second.
func TestHand_notAllowed_wakesTheHead(t *testing.T) {
	none := func(*queue) {}
	noHand := func(r *protocol.Request) { r.Hand = 0 }
	for name, tc := range map[string]struct {
		before  func(q *queue)              // after bob has queued
		waiter  func(r *protocol.Request)   // of bob's acquire
		release []func(r *protocol.Request) // of alice's release
	}{
		"H17: a vote that was not believed":       {none, nil, []func(*protocol.Request){noHand}},
		"H9: a quarantined master":                {func(q *queue) { q.state(membership.Quarantined, 1) }, nil, nil},
		"H9: a master of another epoch":           {func(q *queue) { q.state(membership.Voting, 2) }, nil, nil},
		"a TTL that is shorter than a handed one": {none, func(r *protocol.Request) { r.TTL = liveness - 1 }, nil},
		"a reader": {none, func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, protocol.Read) }, nil},
		"a client of an earlier build": {func(q *queue) {
			_ = q.m.Do(func(db *DB) { db.ZAdd(handQueue, 1, bob) })
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			withQueue(t, func(q *queue) {
				q.acquire(alice+":1", 5)
				change := []func(*protocol.Request){}
				if tc.waiter != nil {
					change = append(change, tc.waiter)
				}
				q.acquire(bob+":7", 20, change...)
				tc.before(q)
				q.hands()
				if r := q.release(alice+":1", tc.release...); r.Outcome != protocol.Granted {
					t.Fatalf("%+v", r)
				}
				if hands, wakes := q.hands(); len(hands) != 0 || !slices.Equal(wakes, []string{bob}) {
					t.Errorf("hands %+v, wakes %q", hands, wakes)
				}
				if h := q.m.Holder(handLock); h != "" {
					t.Errorf("%s has the lock", h)
				}
			})
		})
	}
}

// H16: what an op does not set free itself it does not hand: the vote may have expired because the
// clock jumped. Nor does a writer's release that leaves the writer's read vote.
func TestHand_notSetFreeByThisOp_wakesTheHead(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.acquire(carol+":1", 5)
		q.acquire(alice+":1", 10)
		q.acquire(bob+":7", 20)
		_ = q.m.Do(func(db *DB) { db.Del(handLock) }) // it expired
		q.hands()
		if r := q.release(alice + ":1"); r.Outcome != protocol.Absent { // the first place
			t.Fatalf("%+v", r)
		}
		if hands, wakes := q.hands(); len(hands) != 0 || !slices.Equal(wakes, []string{bob}) {
			t.Errorf("expired: hands %+v, wakes %q", hands, wakes)
		}
		q.release(bob + ":7")

		write := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, protocol.Write) }
		q.acquire(alice+":2", 5, write)
		q.acquire(alice+":3", 6, func(r *protocol.Request) {
			r.Lock, r.Wait, r.JoinWrite = protocol.NewLock(handLock, protocol.Read), nil, alice+":2:write"
		})
		q.acquire(bob+":8", 20, write)
		q.hands()
		q.release(alice+":2", write)
		if hands, _ := q.hands(); len(hands) != 0 || q.m.field(handLock, alice+":3") != "1" {
			t.Errorf("a downgrade: hands %+v", hands)
		}
	})
}

// H10: a place dies with the epoch and the incarnation in which it was taken.
func TestHand_placeOfAnotherState_isDropped(t *testing.T) {
	withQueue(t, func(q *queue) {
		_ = q.m.Do(func(db *DB) {
			db.ZAdd(handQueue, 1, bob+":7/x/"+votingState(7).String())
			db.PExpire(handQueue, 60_000)
			db.SetPX("redlock:alive:"+bob, "1", 60_000)
		})
		q.acquire(alice+":1", 0, func(r *protocol.Request) { r.Wait.Ticket = 1 })
		q.acquire(carol+":9", 20)
		q.hands()
		q.release(alice + ":1")
		if hands, _ := q.hands(); len(hands) != 1 || !strings.HasPrefix(hands[0].Field, carol) {
			t.Errorf("%+v", hands)
		}
		if got := q.places(); len(got) != 0 {
			t.Errorf("in the queue: %q", got)
		}
	})
}

// A listener on Redisson's channel has the lock's next moment. Our head is woken.
func TestHand_redissonListens_leavesTheLockFree(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.acquire(alice+":1", 5)
		q.acquire(bob+":7", 20)
		java := dialState(q.t, q.m, "")
		java.Node.Subscribe(protocol.NewLock(handLock, protocol.Plain).Channel)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		q.hands()
		q.release(alice + ":1")
		if hands, wakes := q.hands(); len(hands) != 0 || !slices.Equal(wakes, []string{bob}) {
			t.Errorf("hands %+v, wakes %q", hands, wakes)
		}
	})
}

// H19: a place whose client no message reaches is passed over, unless the client says that it is to be
// waited for. It is out of the queue then, so that it is looked at once. If nobody is left, the lock is free.
func TestHand_headHearsNothing_passedOver(t *testing.T) {
	for name, tc := range map[string]struct {
		listens string // the client that is subscribed
		says    string // the client that says that it is to be waited for
		behind  bool   // carol waits too
		heir    string
		left    int // places
	}{
		"the next listens":             {carol, "", true, carol, 0},
		"the next is to be waited for": {"", carol, true, carol, 0},
		"the head listens":             {bob, carol, true, bob, 1},
		"the head is to be waited for": {carol, bob, true, bob, 1},
		"nobody hears anything":        {"", "", true, "", 0},
		"nobody else waits":            {carol, "", false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			withQueue(t, func(q *queue) {
				q.acquire(alice+":1", 5)
				q.acquire(bob+":7", 20)
				if tc.behind {
					q.acquire(carol+":9", 30)
				}
				q.hears(tc.listens, tc.says)
				q.hands()
				q.release(alice + ":1")
				heir := ""
				hands, wakes := q.hands()
				if len(hands) == 1 {
					heir = hands[0].Field[:36]
				}
				if heir != tc.heir || len(hands) > 1 || len(wakes) != 0 {
					t.Errorf("hands %+v, wakes %q", hands, wakes)
				}
				if len(q.places()) != tc.left {
					t.Errorf("in the queue: %q", q.places())
				}
				if held := q.m.Holder(handLock); !strings.HasPrefix(held, tc.heir) || tc.heir == "" && held != "" {
					t.Errorf("%q has the lock", held)
				}
			})
		})
	}
}

// A release of a reader removes readers that died, and frees the lock if no other is left.
func TestRelease_reader_removesReadersThatDied(t *testing.T) {
	withQueue(t, func(q *queue) {
		read := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, protocol.Read) }
		for i, client := range []string{alice, bob, carol} {
			q.acquire(client+":1", int64(5+i), read)
		}
		dies := func(client string) {
			_ = q.m.Do(func(db *DB) { db.Del("{" + handLock + "}:" + client + ":1:rwlock_timeout:1") })
		}
		fields := func() (all []string) {
			_ = q.m.Do(func(db *DB) { all = db.HKeys(handLock) })
			return all
		}
		dies(alice)
		q.release(bob+":1", read)
		if got := fields(); !slices.Equal(got, []string{"mode", carol + ":1"}) {
			t.Errorf("the lock has %q", got)
		}
		q.acquire(bob+":2", 8, read)
		dies(carol)
		q.release(bob+":2", read)
		if got := fields(); got != nil {
			t.Errorf("the lock has %q, and nobody holds it", got)
		}
	})
}

// However many waiters were killed, they cost the others nothing: each is looked at once.
func TestHand_manyWereKilled_theNextIsHandedTheLock(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.acquire(alice+":1", 5)
		for i := range 100 {
			q.acquire(fmt.Sprintf("%s%02d:7", bob[:34], i), int64(10+i))
		}
		q.acquire(carol+":9", 500)
		q.hears(carol, "")
		q.hands()
		q.release(alice + ":1")
		if hands, wakes := q.hands(); len(hands) != 1 || hands[0].Field != carol+":9" || len(wakes) != 0 {
			t.Errorf("hands %+v, wakes %q", hands, wakes)
		}
		if len(q.places()) != 0 {
			t.Errorf("%d places are left", len(q.places()))
		}
	})
}

// hears makes listens the only client that is subscribed, and says the only one that says that it is to be waited for.
func (q *queue) hears(listens, says string) {
	if listens != "" {
		dialState(q.t, q.m, "").Node.Subscribe(protocol.Wake(listens))
		synctest.Wait()
		time.Sleep(time.Millisecond)
	}
	_ = q.m.Do(func(db *DB) {
		for _, key := range append(db.Keys(), "redlock:alive:"+alice, "redlock:alive:"+bob, "redlock:alive:"+carol) {
			client, alive := strings.CutPrefix(key, "redlock:alive:")
			if !alive {
				continue
			}
			sign := "12345"
			if client == says {
				sign += protocol.Deaf
			}
			db.SetPX("redlock:alive:"+client, sign, liveness.Milliseconds())
		}
	})
}

// H19: nor does a free lock wait for clients that no message reaches: others take it.
func TestAcquire_freeAndNobodyAheadHears_granted(t *testing.T) {
	try := func(r *protocol.Request) { r.Wait = nil }
	read := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, protocol.Read) }
	for name, tc := range map[string]struct {
		listens, says string
		change        []func(*protocol.Request)
		want          protocol.Outcome
	}{
		"a waiter":                       {"", "", nil, protocol.Granted},
		"a reader":                       {"", "", []func(*protocol.Request){read}, protocol.Granted},
		"a try":                          {"", "", []func(*protocol.Request){try}, protocol.Granted},
		"a waiter, one ahead listens":    {bob, "", nil, protocol.Held},
		"a reader, one ahead listens":    {bob, "", []func(*protocol.Request){read}, protocol.Held},
		"a try, one listens":             {bob, "", []func(*protocol.Request){try}, protocol.Held},
		"a try, one is to be waited for": {"", bob, []func(*protocol.Request){try}, protocol.Held},
	} {
		t.Run(name, func(t *testing.T) {
			withQueue(t, func(q *queue) {
				q.acquire(alice+":1", 5)
				q.acquire(alice+":2", 10)
				q.acquire(bob+":7", 20)
				_ = q.m.Do(func(db *DB) { db.Del(handLock) }) // it expired
				q.hears(tc.listens, tc.says)
				if r := q.acquire(carol+":9", 30, tc.change...); r.Outcome != tc.want {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// H4: a release gives back what the holder has: the vote that it was handed, or the place.
func TestRelease_ofAWaiter_removesVoteOrPlace(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.acquire(alice+":1", 5)
		q.acquire(bob+":7", 20)
		q.acquire(carol+":9", 30)
		if r := q.release(bob + ":7"); r.Outcome != protocol.Absent {
			t.Errorf("a place is no vote: %+v", r)
		}
		if got := q.places(); len(got) != 1 || !strings.HasPrefix(got[0], carol) {
			t.Errorf("in the queue: %q", got)
		}
		q.release(alice + ":1")
		if r := q.release(carol+":9", func(r *protocol.Request) { r.Hand = 0 }); r.Outcome != protocol.Granted {
			t.Errorf("the handed vote: %+v", r)
		}
		if keys := slices.DeleteFunc(q.m.Keys(), func(k string) bool { return k == protocol.RecordKey || strings.HasPrefix(k, "redlock:alive:") }); len(keys) != 0 {
			t.Errorf("left: %q", keys)
		}
	})
}

// A place goes with its release also where the lock's key is of another type, which counts as no vote: the release is not sent again.
func TestRelease_keyOfAnotherType_removesThePlace(t *testing.T) {
	for _, mode := range []protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
		t.Run(string(mode), func(t *testing.T) {
			withQueue(t, func(q *queue) {
				of := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, mode) }
				q.acquire(alice+":1", 5)
				q.acquire(bob+":7", 20, of)
				_ = q.m.Do(func(db *DB) {
					db.Del(handLock)
					db.Set(handLock, "text")
				})
				if r := q.release(bob+":7", of); r.Outcome != protocol.Absent || len(q.places()) != 0 {
					t.Errorf("%+v, and in the queue: %q", r, q.places())
				}
			})
		})
	}
}

// Readers take the lock together: each that has its turn wakes the next, though its place went with
// its holder before.
func TestRetry_reader_wakesTheReaderBehind(t *testing.T) {
	withQueue(t, func(q *queue) {
		read := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, protocol.Read) }
		write := func(r *protocol.Request) { r.Lock = protocol.NewLock(handLock, protocol.Write) }
		q.acquire(alice+":1", 5, write)
		q.acquire(bob+":7", 20, read)
		q.acquire(carol+":9", 30, read)
		q.hands()
		q.release(alice+":1", write)
		if _, wakes := q.hands(); !slices.Equal(wakes, []string{bob}) {
			t.Fatalf("wakes %q", wakes)
		}
		q.release(bob+":7", read, func(r *protocol.Request) { r.Hand, r.Leaves = 0, true })
		if r := q.acquire(bob+":8", 20, read, func(r *protocol.Request) { r.Wait.Retry = true }); r.Outcome != protocol.Granted {
			t.Fatalf("%+v", r)
		}
		if _, wakes := q.hands(); !slices.Equal(wakes, []string{carol}) {
			t.Errorf("then wakes %q", wakes)
		}
	})
}

// A caller that asks again behind its release has its turn by its ticket, and wakes nobody.
func TestRelease_leaves_theRetryHasTheTurn(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.acquire(alice+":1", 5)
		q.acquire(bob+":7", 20)
		q.acquire(carol+":9", 30)
		q.release(alice + ":1")
		q.hands()
		leaves := func(r *protocol.Request) { r.Hand, r.Leaves = 0, true }
		retry := func(r *protocol.Request) { r.Wait.Retry = true }
		q.release(bob+":7", leaves)
		if hands, wakes := q.hands(); len(hands)+len(wakes) != 0 {
			t.Errorf("hands %+v, wakes %q", hands, wakes)
		}
		if r := q.acquire(bob+":8", 20, retry); r.Outcome != protocol.Granted || r.Token != 3 {
			t.Errorf("%+v", r)
		}
		if ttl := q.m.PTTL(handLock); ttl != 10*time.Second {
			t.Errorf("a vote in a reply has the TTL %v", ttl)
		}
		// Behind somebody else it is queued, and wakes the other.
		q.release(bob+":8", leaves)
		if r := q.acquire(bob+":9", 40, retry); r.Outcome != protocol.Held || r.Ahead != 1 {
			t.Errorf("%+v", r)
		}
		if hands, wakes := q.hands(); len(hands) != 0 || !slices.Equal(wakes, []string{carol}) {
			t.Errorf("hands %+v, wakes %q", hands, wakes)
		}
	})
}

// H3 and H7: who asks again finds the vote, and then has it for the full TTL; or finds the place;
// or nothing, for good.
func TestAgain_findsVoteOrPlace_createsNone(t *testing.T) {
	withQueue(t, func(q *queue) {
		again := func(r *protocol.Request) { r.Wait.Again = true }
		q.acquire(alice+":1", 5)
		q.acquire(bob+":7", 20)
		if r := q.acquire(bob+":7", 20, again); r.Outcome != protocol.Held || r.Ticket != 20 {
			t.Errorf("with a place: %+v", r)
		}
		q.release(alice + ":1")
		if r := q.acquire(bob+":7", 20, again); r.Outcome != protocol.Granted || r.Token != 2 || q.m.PTTL(handLock) != 10*time.Second {
			t.Errorf("with the vote: %+v, for %v", r, q.m.PTTL(handLock))
		}
		_ = q.m.Do(func(db *DB) { db.Del(handLock) })
		if r := q.acquire(bob+":7", 20, again); r.Outcome != protocol.Held || r.Ticket != 0 || len(q.places()) != 0 {
			t.Errorf("with neither: %+v, in the queue %q", r, q.places())
		}
	})
}

// What a hand has just written is forgotten when its heir gives it back in the same call: the acquire behind
// finds the lock free.
func TestHand_givenBackInItsCall_theNextIsGranted(t *testing.T) {
	withQueue(t, func(q *queue) {
		l := protocol.NewLock(handLock, protocol.Plain)
		q.acquire(alice+":1", 5)
		q.acquire(bob+":1", 20)
		replies := q.askAll([]protocol.Request{
			{Kind: protocol.Release, Lock: l, Holder: alice + ":1", Hand: liveness},
			{Kind: protocol.Release, Lock: l, Holder: bob + ":1"},
			{Kind: protocol.Acquire, Lock: l, Holder: carol + ":1", TTL: 10 * time.Second, Wait: &protocol.Wait{Ticket: 30, Liveness: liveness}},
		})
		if hands, _ := q.hands(); len(hands) != 1 || replies[1].Outcome != protocol.Granted || replies[2].Outcome != protocol.Granted {
			t.Errorf("handed %+v, then %+v", hands, replies)
		}
		if held := q.m.Holder(handLock); held != carol+":1" {
			t.Errorf("%q has the lock", held)
		}
	})
}

// A top-up takes the holder's place out of the queue: who has a vote has no place, and a release of a vote looks for none.
func TestTopUp_ofAHolderWithAPlace_removesThePlace(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.acquire(alice+":1", 5)
		q.acquire(bob+":1", 20)
		_ = q.m.Do(func(db *DB) { db.Del(handLock) }) // bob has won the lock elsewhere
		r := q.ask(protocol.Request{Kind: protocol.TopUp, Lock: protocol.NewLock(handLock, protocol.Plain), Holder: bob + ":1", TTL: 10 * time.Second, Count: 1})
		if r.Outcome != protocol.Granted || len(q.places()) != 0 {
			t.Errorf("%+v, and in the queue: %q", r, q.places())
		}
	})
}

// Ops of one call raise one counter: by hands, and by acquires before and behind them. It never
// falls, and no token of a lock is given twice. The calls are put together at random.
func TestHand_manyOpsInACall_tokensGrow(t *testing.T) {
	replay.Each(t, tokensGrow)
}

func tokensGrow(t *testing.T, seed uint64) {
	withQueue(t, func(q *queue) {
		rnd := replay.RNG(seed)
		clients := []string{alice, bob, carol}
		// The locks share a counter.
		locks := []*protocol.Lock{protocol.NewLock(handLock, protocol.Plain)}
		for i := 0; len(locks) < 8; i++ {
			if l := protocol.NewLock(fmt.Sprint("other", i), protocol.Plain); l.CounterIndex == locks[0].CounterIndex {
				locks = append(locks, l)
			}
		}
		numbers, handed, most, last := 0, 0, int64(0), map[string]int64{}
		told := func(lock string, vote int64) {
			if vote <= last[lock] {
				t.Fatalf("%s: token %d after %d", lock, vote, last[lock])
			}
			last[lock] = vote
		}
		for range 3000 {
			var ops []protocol.Request
			for range 1 + rnd.IntN(6) {
				l := locks[rnd.IntN(len(locks))]
				if held := q.m.Holder(l.Name); held != "" && rnd.IntN(2) == 0 {
					ops = append(ops, protocol.Request{Kind: protocol.Release, Lock: l, Holder: held, Hand: liveness, Token: int64(rnd.IntN(50))})
					continue
				}
				numbers++
				r := protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: fmt.Sprintf("%s:%d", clients[rnd.IntN(3)], numbers),
					TTL: 10 * time.Second, Token: int64(rnd.IntN(50))}
				if rnd.IntN(2) == 0 {
					r.Wait = &protocol.Wait{Ticket: int64(numbers), Liveness: liveness}
				}
				ops = append(ops, r)
			}
			replies := q.askAll(ops)
			type vote struct {
				lock  string
				token int64
			}
			var votes []vote
			hands, _ := q.hands()
			for _, h := range hands {
				votes = append(votes, vote{h.Key, h.Vote})
				handed++
			}
			for i, r := range replies {
				if r.Outcome == protocol.Granted && ops[i].Kind == protocol.Acquire {
					votes = append(votes, vote{ops[i].Lock.Name, r.Token})
				}
			}
			slices.SortFunc(votes, func(a, b vote) int { return int(a.token - b.token) })
			for _, v := range votes {
				told(v.lock, v.token)
				most = max(most, v.token)
			}
			if n, _ := strconv.ParseInt(q.counter(), 10, 64); n < most {
				t.Fatalf("the counter is %d, and a token %d", n, most)
			}
		}
		if handed < 100 {
			t.Errorf("only %d hands", handed)
		}
	})
}

// dialState makes a client that checks the record's state. Without an epoch it only listens.
func dialState(t *testing.T, m *Master, epoch string) *client {
	t.Helper()
	clk := clock.Monotonic()
	c := &client{m.Node(node.Config{Clock: clk}), clk, make(chan *protocol.Op, 1024)}
	c.Bind(protocol.Binding{CheckRecordState: true, Drift: clock.DefaultDrift()})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch != "" {
		c.Enter(epoch, nil, time.Hour)
	}
	return c
}

// askAll sends all in one call, and waits for the answers.
func (c *client) askAll(reqs []protocol.Request) []protocol.Reply {
	var ops []*protocol.Op
	for i, r := range reqs {
		r.More = i < len(reqs)-1
		ops = append(ops, c.send(r, time.Minute))
	}
	replies := make([]protocol.Reply, len(ops))
	for range ops {
		<-c.ch
	}
	for i, op := range ops {
		replies[i] = op.Reply
	}
	return replies
}

// A place is left for an acquire behind it that is not sent, in each way in which that can happen. Nobody else asks for the lock, which is
// free: the release wakes the next.
func TestRelease_leavesForAnAcquireThatIsNotSent_wakesTheNext(t *testing.T) {
	leave := func(q *queue) *protocol.Request {
		return &protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock(handLock, protocol.Plain), Holder: bob + ":7", Leaves: true, More: true,
			Start: q.clock.Elapsed(), Deadline: q.clock.Elapsed() + time.Minute}
	}
	retry := func(q *queue) *protocol.Request {
		return &protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(handLock, protocol.Plain), Holder: bob + ":8", TTL: time.Second, Token: 1,
			Wait: &protocol.Wait{Ticket: 20, Liveness: liveness, Retry: true}, Start: q.clock.Elapsed(), Deadline: q.clock.Elapsed() + time.Minute}
	}
	submit := func(q *queue, req *protocol.Request) bool { return q.Submit(&protocol.Op{To: q, Request: req}) }
	for name, tc := range map[string]func(q *queue){
		"its time is over": func(q *queue) {
			late := retry(q)
			late.Deadline = 0
			submit(q, leave(q))
			submit(q, late)
		},
		"the master may not vote": func(q *queue) {
			q.Enter(votingState(1).Epoch.String(), errNoVotes, time.Hour)
			submit(q, leave(q))
			if submit(q, retry(q)) {
				q.t.Error("the acquire was taken")
			}
		},
		"the master may not vote any more when it is its turn": func(q *queue) {
			q.SetFault(func(cmd Command) Fault {
				if slices.Contains(cmd.Keys, "other") {
					return Fault{ReplyDelay: 10 * time.Millisecond}
				}
				return Fault{}
			})
			submit(q, acquireOf("other"))
			time.Sleep(time.Millisecond)
			if !submit(q, leave(q)) || !submit(q, retry(q)) {
				q.t.Error("they were turned away")
			}
			q.Enter(votingState(1).Epoch.String(), errNoVotes, time.Hour)
			time.Sleep(10 * time.Millisecond)
		},
		"the master does not answer": func(q *queue) {
			q.m.Pause()
			submit(q, acquireOf("other"))
			time.Sleep(time.Second) // the lane sends nothing more
			if submit(q, leave(q)) || submit(q, retry(q)) {
				q.t.Error("the lane takes what it does not send")
			}
			q.m.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) {
			withQueue(t, func(q *queue) {
				brief := func(r *protocol.Request) { r.TTL = liveness - 1 } // such places are not handed the lock
				q.acquire(alice+":1", 5)
				q.acquire(bob+":7", 20, brief)
				q.acquire(carol+":9", 30, brief)
				q.hands()
				q.release(alice + ":1")
				if hands, wakes := q.hands(); len(hands) != 0 || !slices.Equal(wakes, []string{bob}) {
					t.Fatalf("hands %+v, wakes %q", hands, wakes)
				}
				tc(q)
				synctest.Wait()
				if _, wakes := q.hands(); !slices.Equal(wakes, []string{carol}) {
					t.Errorf("wakes %q", wakes)
				}
			})
		})
	}
}

// acquireOf asks for a lock that nobody else asks for.
func acquireOf(name string) *protocol.Request {
	r := acquireOp(name, alice+":1", time.Minute)
	r.Token, r.Deadline = 1, time.Hour
	return &r
}
