// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// unknownState is a record state that no record has. A connection has it until its first
// batch.
const unknownState = "?"

// greet is the first traffic on a connection. It reads the master's identity and clock,
// loads the scripts and checks the user's rights. A restart always breaks TCP, so the
// greeting notices every restart.
//
// It takes two round trips. A master that wants a password hangs up when a user without
// one sends a script, and does not say why; INFO gets an answer.
func (r *redisNode) greet(ctx context.Context, cn *redis.Conn, c *conn) error {
	pipe := cn.Pipeline()
	r.evictedReadAt = r.clock.Elapsed()
	info := wire.NewInfo(protocol.InfoSections...).AddTo(ctx, pipe)
	id := pipe.ClientID(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !wire.IsReply(err) {
		return err
	}
	about, err := info.Text()
	if err != nil {
		return err
	}
	for _, src := range wire.Sources() {
		pipe.ScriptLoad(ctx, src)
	}
	check := wire.NewCheck(r.keys).AddTo(ctx, pipe)
	if r.binding.Owner != "" {
		pipe.ClientSetName(ctx, r.binding.Owner) // without the right the connection has no name
	}
	state := pipe.HMGet(ctx, r.keys.Record, membership.FieldState)
	// TIME is part of the greeting, so that a jump of the clock before the first vote is noticed.
	sent, now := r.clock.Elapsed(), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !wire.IsReply(err) {
		return err
	}
	received := r.clock.Elapsed()
	ident := protocol.ReadIdentity(about, onlyField(state))
	if err := r.locator.CheckMode(isCluster(about)); err != nil {
		return err
	}
	forReaders, refusal, err := check.Rights()
	if err != nil {
		return cmp.Or(wire.NotServing(err), ident.Check(), err) // such as MOVED, which says where to go on, or LOADING. But what is no master has no scripts
	}
	// The master may refuse CLIENT ID and SCRIPT LOAD. Then killPrevious does nothing, and
	// the first call of each script is sent again with EVAL.
	c.id = id.Val()
	ident.NoReaders = forReaders
	c.ident = ident
	if err := ident.Check(); err != nil {
		r.sub.refuse() // such as a replica, which passes on what its master publishes
		return err
	}
	c.epoch, c.wire.Voting, c.wire.Quarantined = unknownState, unknownState, unknownState
	if r.binding.Admit != nil {
		if err := r.binding.Admit(ident); err != nil {
			r.sub.refuse()
			return err
		}
	}
	// Only now is the server known to be the master: a search may meet others before, such as the seed of a
	// cluster, whose process and clock say nothing about the master's.
	r.meetProcess(ident.RunID)
	r.observeClock(sent, received, now)
	r.rightsDoubted = false
	r.noteRights(nil)
	r.noteWrites(refusal)
	return nil
}

// meetProcess records the process to which the lane has connected. If it is another
// process than before, it may be on another host with another clock. The node asks it for
// no vote until the coordinator has called Enter.
func (r *redisNode) meetProcess(runID string) {
	if runID == r.clockRunID {
		return
	}
	r.clockMonitor, r.clockRunID = clock.Watch{}, runID
	r.mu.Lock()
	r.epoch = ""
	r.doubtLocked(ErrNotEntered)
	r.mu.Unlock()
}

// isCluster reports whether a server is part of a Redis Cluster, from its INFO.
func isCluster(info string) bool {
	mode := protocol.InfoField(info, "redis_mode")
	if mode == "" {
		mode = protocol.InfoField(info, "server_mode") // Valkey
	}
	return mode == "cluster"
}

// onlyField returns the one field that an HMGET asked for, or "".
func onlyField(fields *redis.SliceCmd) string {
	if vals := fields.Val(); len(vals) == 1 {
		s, _ := vals[0].(string)
		return s
	}
	return ""
}

// incarnationChanged reports whether the record with which the master refused a script is
// of another incarnation than the connection's, or is gone.
func (c *conn) incarnationChanged(refusal error) bool {
	var state *protocol.RecordStateError
	if !errors.As(refusal, &state) {
		return false
	}
	rs, _ := membership.ParseRecordState(state.Got)
	return rs.Incarnation != c.ident.Incarnation()
}

// verify reads the master's identity again, after its record was replaced.
func (c *conn) verify() error {
	pipe := c.Pipeline()
	info := wire.NewInfo(protocol.InfoSections...).AddTo(background, pipe)
	state := pipe.HMGet(background, c.wire.Keys.Record, membership.FieldState)
	if _, err := pipe.Exec(background); err != nil && !wire.IsReply(err) {
		return err
	}
	return c.checkSame(info, onlyField(state))
}

var (
	errReplaced = errors.New("node: the master's data set was replaced")
	errEvicted  = errors.New("node: the master has evicted keys, and locks may be among them")
)

// checkEvicted returns an error if the master has evicted keys since the greeting, as info
// says, which has the section stats.
func (c *conn) checkEvicted(info wire.Info) error {
	text, err := info.Text()
	if err == nil && protocol.Evicted(text) != c.ident.Evicted {
		err = errEvicted
	}
	return wire.Explain(err)
}

// checkSame returns an error if the master may not vote any more, or has another data set
// than at the greeting. info has all of InfoSections; state is that of the record.
//
// An operator can change the policy of a running master. REPLICAOF followed by REPLICAOF NO
// ONE replaces the data set under an open connection. Clients that connected before and
// after would then never agree on what the record must contain.
func (c *conn) checkSame(info wire.Info, state string) error {
	text, err := info.Text()
	if err != nil {
		return wire.Explain(err)
	}
	now := protocol.ReadIdentity(text, state)
	switch err := now.Check(); {
	case err != nil:
		return err
	case now.Evicted != c.ident.Evicted:
		return errEvicted
	case now.Incarnation() != c.ident.Incarnation():
		return errReplaced
	}
	return nil
}

// recordStates returns the record state of a voting master, and how the state of a
// quarantined one begins. Scripts compare the record with both.
func (r *redisNode) recordStates(incarnation, epoch string) (voting, quarantined string) {
	if !r.binding.CheckRecordState {
		return "", "-" // voting: no state at all; quarantined: no state begins so
	}
	return membership.RecordStatePrefix(epoch, incarnation, membership.Voting),
		membership.RecordStatePrefix(epoch, incarnation, membership.Quarantined) + "|"
}
