// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	vouchers "github.com/redlock-go/redlock/internal/lock/voucher"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Transfer ends the lease in this process and returns a voucher, with which another process can have
// it: see [Client.Adopt]. The lock is not free in between. The adopter gets a fencing token of its own, which is larger:
// a resource that has seen it refuses what this process sent and is still on its way.
// Transfer is for work that begins in one process and goes on in another.
//
// Transfer extends the lease first. If that fails, Transfer returns the error of [Lease.Extend],
// and the lease goes on. Then the lease and its context end, with [ErrReleased]: whoever works
// under the lease must stop before the voucher is given away. When Transfer returns a voucher
// the lease is over.
//
// The voucher is a text of ASCII letters, digits, '.', '-' and '_', of 120 to 200 bytes for each master, and
// four thirds of the length of the lock's name and namespace. Keep it as secret as the right to take the lock. It can be used once, and while a quorum of masters keeps the votes: for
// the TTL, counted from the call of Transfer, less the drift. If nobody uses it the lock is free after that.
//
// Only the lease of a Mutex that is not re-entered at the moment can be handed off. Other leases give an [ErrConfig], and go on. A vote that was put back on a master which
// had lost it cannot be handed off. When a quorum of the masters has lost its data since the grant, as in a rolling restart without persistence,
// each Transfer of that lease gives an [ErrUnreachable]: unlock it, and have the other process lock.
func (l *Lease) Transfer(ctx context.Context) (voucher string, err error) {
	switch {
	case l.isZero():
		return "", errZeroLease
	case ctx == nil:
		return "", errNilContext
	case l.hold().Lock.Mode != protocol.Plain:
		return "", fmt.Errorf("%w: %q is a lease of an RWMutex: only that of a Mutex can be handed off", ErrConfig, l.Name())
	}
	if err := l.Extend(ctx); err != nil {
		return "", err
	}
	return l.handoff()
}

// handoff ends the lease and makes a voucher of its votes.
func (l *Lease) handoff() (string, error) {
	c, h := l.c, l.hold()
	votes, err := l.share.GiveAway()
	if err != nil {
		return "", l.already(err)
	}
	return vouchers.Of(c.namespace, h.Lock.Name, h.Holder, h.Token, c.masters.Nodes, votes).String(), nil
}

// Adopt returns the lease that another process has handed off. It has a fencing token of its own, larger than the giver's
// and smaller than that of every later lease: present it to the resource before the first read, as after a Lock. Adopt
// asks the masters once, and once more if their numbers differ, and does not wait. The lease has the TTL and the other options of this
// client, or of opts, as one of [Mutex.Lock] has. A minimum hold of the lock counts from its grant on, wherever its lease is;
// [WithMinHold] has no effect here.
//
// Of several calls with one voucher, in whatever processes, one at most succeeds. The errors are
//
//	ErrLost         too few masters still have the votes: the voucher was used before, or its time
//	                is over. Take the lock as usual
//	ErrUnreachable  too few masters in the voucher answered, or too few of them handed their votes over
//	ErrRecovering   too many of them may not vote
//	ErrConfig       the voucher is damaged, or of another namespace or list of masters; an option
//	                that cannot work
//	ErrClosed, ErrRefused, ctx.Err()
//
// After an error from the masters the voucher may be used up: a part of the votes may have changed hands. They
// are given back, and the lock is free when the rest of the votes ends.
func (c *Client) Adopt(ctx context.Context, voucher string, opts ...LockOption) (*Lease, error) {
	if c.isZero() {
		return nil, errZeroClient
	}
	if ctx == nil {
		return nil, errNilContext
	}
	t, err := vouchers.Parse(voucher)
	if err != nil {
		return nil, err
	}
	m := c.Mutex(t.Name, opts...)
	if m.err != nil {
		return nil, m.err
	}
	voters, states := t.In(c.masters.Nodes)
	switch n := bits.OnesCount64(voters); {
	case t.Namespace != string(c.namespace):
		return nil, fmt.Errorf("%w: the voucher of %q is of namespace %q, this client has %q", ErrConfig, t.Name, t.Namespace, c.namespace)
	case n != len(t.Voters) || n < c.masters.Need:
		return nil, fmt.Errorf("%w: the voucher of %q is of other masters: %s; this client has %s", ErrConfig, t.Name, t.Masters(), c.epoch.masters)
	}
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer c.lines.Leave()
	m.ls.MinHold, m.ls.adopted = 0, true // the lock rests already, since its grant
	// The voucher's token is proposed for this attempt alone: nobody knows who wrote it, and what the client has seen stays for its life.
	//
	// Only masters that have had the giver's vote since the grant, and only in the record state that they had when the voucher was
	// made: one with another state may have older data, in which the voucher was not used yet.
	a := c.tries.Begin(ctx, m.l, m.ls.Settings, &protocol.Request{Kind: protocol.Adopt, From: t.Holder, Token: min(t.Token+1, counting.MaxToken)})
	r := round{&a, c, &m.ls}
	for i, state := range states {
		r.Call.Change(1<<i, func(req *protocol.Request) { req.Voted = state })
	}
	r.Call.Send(voters)
	r.Call.Skip(c.masters.All &^ voters)
	v := r.Call.Await(ctx, r.Timeout)
	lease, end := r.win(v)
	if lease == nil {
		err = r.notAdopted(end, bits.OnesCount64(voters))
		r.GiveBack()
	}
	m.tellAcquired(ctx, lease, err, r.Start, 1, false)
	return lease, err
}

// notAdopted is the error of Adopt, after a round to so many masters.
func (r *round) notAdopted(end attempt.Lost, voters int) error {
	if end.Verdict == counting.Lost {
		r.Call.Hear(r.Ctx, quorum.Everybody, r.Timeout-end.Took)
	}
	if gone := r.Call.Absent(); voters-gone < r.c.masters.Need {
		return fmt.Errorf("%w: adopting %q: %d of %d masters have no vote for the voucher: it was used before, or its time is over", ErrLost, r.Lock.Name, gone, voters)
	}
	return r.why(end, r.c.roundError(r.Lock, r.Call.Replies()))
}
