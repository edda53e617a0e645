// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/unacked"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// keeps says whether op keeps what a client has: its leases, and its places in queues. Such an op goes ahead of what callers ask anew, and
// finds room in a queue that is full for callers. They can ask again. A lease whose extends are late three times is lost.
func keeps(op *protocol.Op) bool {
	return op.Kind == protocol.Extend || op.Kind == protocol.TopUp || op.Kind == protocol.Heartbeat
}

// placeLocked is where in the queue op belongs: at its end, or for one that keeps something as far ahead as is right. Next to the end is
// soon enough where all goes out with the next pipeline.
//
// The master executes the ops of one holder in the order in which they were submitted, so op stays behind those of its own holders. Ops of
// other holders are of other calls, each of which might have come later. It stays behind a change of the record too, on which all scripts look.
func (r *redisNode) placeLocked(op *protocol.Op) int {
	end := len(r.queue)
	if end < maxPipeline || !keeps(op) {
		return end
	}
	own := map[string]bool{}
	if op.Holder != "" {
		own[op.Holder] = true
	}
	for _, it := range op.Items {
		own[it.Holder] = true
	}
	at := end
	for at > 0 && !mustFollow(own, r.queue[at-1]) {
		at--
	}
	// Behind those that came before for the same reason, and not into the middle of a pair.
	for at < end && (keeps(r.queue[at]) || at > 0 && r.queue[at-1].More) {
		at++
	}
	return at
}

// mustFollow says whether an op of these holders is to be executed after before. An announcement changes no vote, and is made again and again.
func mustFollow(own map[string]bool, before *protocol.Op) bool {
	switch before.Kind {
	case protocol.CompareAndSetRecord:
		return true
	case protocol.Announce:
		return false
	}
	return own[before.Holder] || own[before.From] ||
		slices.ContainsFunc(before.Items, func(it protocol.Item) bool { return own[it.Holder] })
}

// begins says whether op is the first of its holder that a master gets. A holder that asks again was sent before.
func begins(op *protocol.Op) bool {
	return op.Kind == protocol.Adopt || op.Kind == protocol.Acquire && !(op.Wait != nil && op.Wait.Again)
}

// withholds says why the lane does not send op, an op of b; nil: it does. A release of a holder of which nothing was sent would find nothing:
// where callers are so many that their acquires come too late, such releases are half of what they ask.
func (r *redisNode) withholds(b *batch, op *protocol.Op) error {
	why := b.drops(op)
	switch {
	case why != nil:
		if begins(op) {
			if len(r.unsent) >= r.cfg.QueueLimit { // one that is forgotten costs a release that finds nothing
				clear(r.unsent)
			}
			r.unsent[unacked.KeyOf(op.Request)] = true
		}
	case len(r.unsent) == 0 || op.Lock == nil:
	case !wire.Undoes(op.Request):
		delete(r.unsent, unacked.KeyOf(op.Request)) // of this there may be something to give back
	case op.Lift == "" && r.unsent[unacked.KeyOf(op.Request)]:
		return ErrLate
	}
	return why
}
