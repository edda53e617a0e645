// SPDX-License-Identifier: Apache-2.0

package unacked

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

const second = time.Second

func release(lock, holder string, until time.Duration) *protocol.Request {
	return &protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock(lock, protocol.Plain), Holder: holder, Deadline: until}
}

func TestList_sameHolder_keptOnce(t *testing.T) {
	var u List
	for i := range time.Duration(3) {
		u.Add(release("x", "h", second-i))
	}
	u.Add(release("x", "other", second))
	u.Add(release("y", "h", second))
	if u.Len() != 3 {
		t.Errorf("%d entries, want 3", u.Len())
	}
	if got := u.byKey[Key{"x", protocol.Plain, "h"}].Value.(*Entry).Req.Deadline; got != second {
		t.Errorf("kept until %v, want the latest, %v", got, second)
	}
}

// What is sent again hands the lock to nobody (H17 in docs/internals/handoff.md).
func TestList_add_handsNothing(t *testing.T) {
	var u List
	r := release("x", "h", second)
	r.Hand = second
	u.Add(r)
	if e := u.Take(0, nil); len(e) != 1 || e[0].Req.Hand != 0 {
		t.Errorf("%+v", e)
	}
}

// A rest that is to be lifted is lifted by whatever is sent again for its holder, and while a confirm may put it yet.
func TestList_rest_isLiftedHoweverLate(t *testing.T) {
	var u List
	u.Broke(&protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h", TTL: second})
	u.Broke(&protocol.Request{Kind: protocol.Confirm, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h", Rest: 100 * second})
	u.Broke(&protocol.Request{Kind: protocol.Confirm, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h"})
	r := release("x", "h", 5*second)
	r.Lift = "h"
	u.Add(r)
	u.Add(release("x", "h", second)) // one that lifts nothing
	u.Expire(10 * second)
	if e := u.Take(0, nil); len(e) != 1 || e[0].Req.Lift != "h" {
		t.Fatalf("%+v", e)
	}
	u.PutBack(u.Take(0, nil))
	u.Connected(10 * second)
	u.Expire(200 * second)
	if u.Len() != 1 {
		t.Error("forgotten while the rest may be there")
	}
	u.Expire(211 * second)
	if u.Len() != 0 {
		t.Error("kept for ever")
	}
}

func TestList_tooMany_oldestDroppedAndCounted(t *testing.T) {
	var u List
	rests := release("x", "rests", second) // for longer than any vote lasts
	rests.Lift = "rests"
	u.Add(rests)
	defer func() {
		if u.byKey[Key{"x", protocol.Plain, "rests"}] == nil {
			t.Error("a rest that is to be lifted was dropped")
		}
	}()
	for i := range Max + 2 {
		u.Add(release("x", fmt.Sprint(i), second))
	}
	if u.Len() != Max || u.dropped != 3 || len(u.byKey) != Max {
		t.Errorf("%d entries, %d dropped, %d keys", u.Len(), u.dropped, len(u.byKey))
	}
	if u.byKey[Key{"x", protocol.Plain, "2"}] != nil || u.byKey[Key{"x", protocol.Plain, "3"}] == nil {
		t.Error("not the oldest were dropped")
	}
}

// An entry ends at its deadline, unless the master may execute later what it undoes.
func TestList_expire_notWhatMayYetBeExecuted(t *testing.T) {
	var u List
	acquire := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "unread", TTL: 3 * second}
	u.Broke(&acquire)
	acquire.Holder, acquire.Wait = "queues", &protocol.Wait{}
	u.Broke(&acquire)
	u.Add(release("x", "unread", second))
	u.Add(release("x", "queues", second))
	u.Add(release("x", "executed", second))
	u.Expire(second - 1)
	if u.Len() != 3 {
		t.Fatalf("%d entries before their time is over", u.Len())
	}
	u.Expire(second)
	if u.Len() != 2 {
		t.Fatalf("%d entries, want the two that may yet be executed", u.Len())
	}
	u.Expire(1000 * second)
	if u.Len() != 2 {
		t.Fatal("what may yet be executed was forgotten")
	}
	// The next connection has ended the one before. From now on these entries end as all others.
	u.Connected(1000 * second)
	u.Expire(1000*second + 6*second - 1)
	if u.Len() != 2 {
		t.Fatal("an acquire that was executed just before the connection was killed lives for its TTL")
	}
	u.Expire(1000*second + placeLife*2)
	if u.Len() != 0 {
		t.Errorf("%d entries for ever", u.Len())
	}
}

func TestList_take_oldestFirst(t *testing.T) {
	var u List
	for i := range 100 {
		u.Add(release("x", fmt.Sprint(i), second))
	}
	entries := u.Take(0, nil)
	if len(entries) != PerPipeline || entries[0].Req.Holder != "0" || entries[PerPipeline-1].Req.Holder != fmt.Sprint(PerPipeline-1) {
		t.Fatalf("%d entries, the last %+v", len(entries), entries[len(entries)-1].Req)
	}
	for i, entry := range entries {
		reply := protocol.Reply{Outcome: protocol.Granted}
		if i%2 == 1 {
			reply = protocol.Reply{Outcome: protocol.Refused}
		}
		u.Answered(entry, &reply, 0)
	}
	if u.Len() != 100-PerPipeline/2 || u.pausedUntil == 0 {
		t.Errorf("%d are left, rest until %v", u.Len(), u.pausedUntil)
	}
	if entries := u.Take(0, nil); len(entries) != 0 {
		t.Errorf("%d go out although the master is given a rest", len(entries))
	}
	if entries := u.Take(Pause, nil); len(entries) != PerPipeline {
		t.Errorf("%d go out after the rest", len(entries))
	}
	// A refusal after the deadline ends an entry.
	last := u.order.Back().Value.(*Entry)
	u.Answered(last, &protocol.Reply{Outcome: protocol.Refused}, second)
	if u.byKey[last.key] != nil {
		t.Error("refused after its time, and kept")
	}
}

// What the master refused because of the user's rights goes out apart from everything else, until the master answers otherwise.
func TestList_denied_isMarkedUntilAnotherAnswer(t *testing.T) {
	var u List
	u.Add(release("x", "h", second))
	for _, tc := range []struct {
		reply protocol.Reply
		want  bool
	}{
		{protocol.Reply{Outcome: protocol.Refused, Err: fmt.Errorf("%w: no such right", protocol.ErrDenied)}, true},
		{protocol.Reply{Outcome: protocol.Refused, Err: protocol.ErrNoWrites}, false},
	} {
		e := u.Take(0, nil)
		u.Answered(e[0], &tc.reply, 0)
		if e[0].Denied != tc.want {
			t.Errorf("after %v: %t", tc.reply.Err, e[0].Denied)
		}
		u.pausedUntil = 0
	}
}

// Entries that the master goes on refusing do not keep the others from being sent.
func TestList_refused_othersGoFirst(t *testing.T) {
	var u List
	for i := range PerPipeline {
		u.Add(release("x", fmt.Sprint(i), second))
	}
	u.Add(release("y", "behind", second))
	for _, e := range u.Take(0, nil) {
		u.Answered(e, &protocol.Reply{Outcome: protocol.Refused}, 0)
	}
	if e := u.Take(Pause, nil); len(e) != PerPipeline || e[0].Req.Holder != "behind" || e[1].Req.Holder != "0" {
		t.Errorf("%d go out, the first of %q", len(e), e[0].Req.Holder)
	}
}
