// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// ReleaseGrace is how long after its caller's deadline an attempt that was not granted waits for its
// releases. A master that answers at all has answered by then.
const ReleaseGrace = 3 * time.Millisecond

// HearOutMax is the longest time that a lost attempt waits for masters that have not answered.
const hearOutMin, HearOutMax = time.Millisecond, 10 * time.Millisecond

// HearOut waits, after an attempt that was lost after took, for the masters that have not answered.
// It waits for a few times as long, so that the error does not call a slow master silent.
func (a *Attempt) HearOut(took time.Duration) {
	a.Call.Hear(a.Ctx, quorum.Everybody, min(max(3*took, hearOutMin), HearOutMax, a.Timeout-took))
}

// GiveBack releases what an attempt that was not granted may have taken: votes, and places in queues.
// It waits for the masters that granted. If the caller's time was over before the masters had theirs
// to answer, it waits for those that may have granted too.
func (a *Attempt) GiveBack() {
	call := a.Call
	call.End()
	granted, maybe, _ := call.Sets()
	places := call.Places()
	if a.Ctx.Err() != nil && !a.Slept {
		granted = maybe
	}
	if mutants.KeepPlaces {
		places = 0
	}
	if mutants.ReleaseOnCaller && a.Ctx.Err() != nil {
		maybe, places = 0, 0
	}
	a.t.release(a.Ctx, a.Releases(places != 0), maybe&granted, (maybe|places)&^granted)
	call.Done()
}

// Releases is the request that gives back what the attempt took, its places too if there are some. A rest that masters may have put is
// lifted: nobody has used the lock. That is tried for as long as the rest lasts, because else nobody could have the lock although nothing
// was done.
func (a *Attempt) Releases(places bool) *protocol.Request {
	m := a.t.Masters
	req := &protocol.Request{Kind: protocol.Release, Lock: a.Lock, Holder: a.Holder, Lift: a.lift, Deadline: a.Start + m.Lives(a.Lock, a.set.TTL)}
	if a.lift != "" {
		req.Deadline = max(req.Deadline, m.RestOver(a.set.MinHold))
	}
	if places {
		req.Deadline = max(req.Deadline, m.Clock.Elapsed()+quorum.LeaveFor)
	}
	return req
}

// release releases what a failed attempt may have, on all masters at once. It waits for the
// masters in granted, so that none of them has a key of the attempt when the caller goes on. A
// cancel of the caller's context does not end that wait, because a cancel is often what ended
// the attempt. The caller's deadline ends it, ReleaseGrace later. release does not wait for the
// masters in others, which have not answered the acquire: they execute the release after it.
func (t *Tries) release(ctx context.Context, req *protocol.Request, granted, others uint64) {
	m := t.Masters
	req.Kind, req.Start = protocol.Release, m.Clock.Elapsed()
	if others != 0 {
		m.Poll(others, 0, req).Done()
	}
	if granted == 0 {
		return
	}
	timeout := m.Timeout()
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(min(time.Until(deadline), timeout), 0)+ReleaseGrace)
	}
	call := m.Poll(granted, 0, req)
	call.Await(context.Background(), timeout)
	call.Done()
}
