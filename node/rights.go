// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// rightsEvery is how often at most the lane looks which rights the user has, on a connection that stands. It looks when an op was denied, and
// until a look finds no right missing. A denial may have a cause that no look finds: a right that only some ops need, or one that is back.
const rightsEvery = time.Second

// deniedRight says whether the error of op is that the user may not run a command any more, or that the master has lost it. A key or a channel
// that is denied concerns some locks only, but for the record's key.
func deniedRight(op *protocol.Op) bool {
	why := op.Reply.Err
	return wire.DeniesCommand(why) || op.Kind == protocol.ReadRecord && errors.Is(why, ErrDenied)
}

// heardOfRights takes what a batch said of the user's rights: whether an op was denied one, the look, if the batch had one, and notServing, which
// may be that TIME or INFO was denied. It returns notServing without that.
//
// While a right is missing, the node asks for no vote, and says which it is. The connection stays, because extends and releases may need other
// rights: what clients hold goes on.
func (r *redisNode) heardOfRights(about *aboutMaster, denied bool, notServing error) error {
	var lacks error
	if wire.LacksRight(notServing) {
		lacks, denied, notServing = notServing, true, nil
	}
	r.rightsDoubted = r.rightsDoubted || denied
	if about.rights == nil {
		if lacks != nil { // without TIME and INFO nobody knows what the votes are worth
			r.noteRights(lacks)
		}
		return notServing
	}
	r.rightsAt = about.received + rightsEvery
	_, refusal, err := about.rights.Rights()
	switch err = wire.Explain(err); {
	case wire.LacksRight(err):
		lacks = err
	case errors.Is(err, ErrDenied):
		return err // the master wants a password again, as for a new connection
	case err != nil:
		return notServing // such as BUSY: the next look tells
	}
	r.rightsDoubted = lacks != nil
	back := r.lacks != nil && lacks == nil
	r.noteRights(lacks)
	r.noteWrites(refusal)
	if back && r.binding.Back != nil {
		r.binding.Back()
	}
	return notServing
}

// noteRights records which right the user lacks for every lock, if any, and tells the coordinator when that changes.
func (r *redisNode) noteRights(lacks error) {
	if fmt.Sprint(lacks) == fmt.Sprint(r.lacks) {
		return
	}
	r.mu.Lock()
	r.lacks = lacks
	r.mu.Unlock()
	r.tellRefusal()
}

// noteWrites tells the coordinator when the master begins to refuse writes, and when it takes them again.
func (r *redisNode) noteWrites(refusal error) {
	if (r.noWrites == nil) != (refusal == nil) {
		r.noWrites = refusal
		r.tellRefusal()
	}
}

// tellRefusal tells the coordinator what the master refuses to every lock, or that it refuses nothing.
func (r *redisNode) tellRefusal() {
	if r.binding.Writes == nil {
		return
	}
	why := cmp.Or(r.lacks, r.noWrites)
	if why != nil {
		why = &Error{Node: r.name, Err: why}
	}
	r.binding.Writes(why)
}
