// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
)

// The real scripts execute transitions of the token model on real masters. Every vote, refusal and
// confirmation must be as in the model, so that the proofs about the model hold for the scripts.
func TestScripts_modelPaths_replyAsTheModel(t *testing.T) {
	needs.EveryServer(t)
	replay.Each(t, modelPaths)
}

func modelPaths(t *testing.T, seed uint64) {
	masters := modelMasters(t, 3)
	for _, m := range []Model{
		{Masters: 3, Attempts: 2, VotesMayVanish: true, Floors: []int64{0, 2, 40}, Starts: [][]int64{{3, 3, 0}, {0, 1, 9}}},
		{Masters: 3, Attempts: 3, VotesMayVanish: true, Starts: [][]int64{{0, 0, 0}, {9, 0, 1}}},
		{Masters: 3, Attempts: 2, Amnesia: 1, Starts: [][]int64{{2, 0, 1}}},
	} {
		paths, err := Paths(m, seed, 60)
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range paths {
			driven := make([]Master, len(masters))
			for j, master := range masters {
				master.reset(t)
				driven[j] = master
			}
			if err := Replay(path, driven); err != nil {
				t.Fatalf("path %d of %+v: %v", i, m, err)
			}
		}
	}
}

// docs/safety.md, "Fencing tokens", has two schedules in which a token is written back to masters
// that do not hold the vote. The token is then granted twice, or after a larger one. The real
// scripts refuse the write-back, so the first grant does not happen.
func TestScripts_counterExamples_writeBackRefused(t *testing.T) {
	needs.EveryServer(t)
	const a, b = 0, 1 // attempts
	t.Run("CE-1", func(t *testing.T) {
		ce := beginExample(t, 9, 0, 0, 1, 1)
		ce.votes(a, 0, 10)
		ce.votes(a, 1, 1)
		ce.votes(a, 2, 1)
		ce.votes(b, 3, 2)
		ce.votes(b, 4, 2)
		ce.confirms(a, 3, 10, false) // B's; with these two A would be granted 10
		ce.confirms(a, 4, 10, false)
		if n := ce.counter(3); n != 2 {
			t.Fatalf("the refused write-back raised the counter to %d", n)
		}
		ce.refused(b, 2)
		ce.releases(a, 0, 1, 2)
		ce.votes(b, 2, 2) // 2, 2, 2: granted without a second round, and nobody had 10
	})
	t.Run("CE-2", func(t *testing.T) {
		ce := beginExample(t, 3, 3, 0)
		ce.votes(a, 0, 4)
		ce.votes(a, 2, 1)
		ce.votes(b, 1, 4)
		ce.confirms(a, 1, 4, false) // B's; with it A would be granted 4
		ce.releases(a, 0, 2)
		ce.votes(b, 2, 2)
		ce.confirms(b, 2, 4, true) // granted 4, the only time
	})
}

// example is a schedule played by hand on masters with given counters.
type example struct {
	t       *testing.T
	masters []*modelMaster
}

func beginExample(t *testing.T, counters ...int64) *example {
	t.Helper()
	ce := &example{t, modelMasters(t, len(counters))}
	for i, m := range ce.masters {
		m.reset(t)
		quorumtest.NoErr(t, m.admin.HSet(t.Context(), protocol.RecordKey, m.field, counters[i]).Err())
	}
	return ce
}

// votes has master i vote for an attempt, with no floor.
func (ce *example) votes(attempt, i int, token int64) {
	ce.t.Helper()
	got, granted, err := ce.masters[i].Acquire(attempt, 0)
	quorumtest.NoErr(ce.t, err)
	if !granted || got != token {
		ce.t.Fatalf("master %d: granted %v with %d, want %d", i, granted, got, token)
	}
}

func (ce *example) refused(attempt, i int) {
	ce.t.Helper()
	_, granted, err := ce.masters[i].Acquire(attempt, 0)
	quorumtest.NoErr(ce.t, err)
	if granted {
		ce.t.Fatalf("master %d granted what another holds", i)
	}
}

func (ce *example) confirms(attempt, i int, token int64, want bool) {
	ce.t.Helper()
	got, err := ce.masters[i].Confirm(attempt, token)
	quorumtest.NoErr(ce.t, err)
	if got != want {
		ce.t.Fatalf("master %d: confirmed %d: %v, want %v", i, token, got, want)
	}
}

func (ce *example) releases(attempt int, on ...int) {
	ce.t.Helper()
	for _, i := range on {
		_, err := ce.masters[i].Release(attempt)
		quorumtest.NoErr(ce.t, err)
	}
}

func (ce *example) counter(i int) int64 {
	ce.t.Helper()
	n, err := ce.masters[i].admin.HGet(ce.t.Context(), protocol.RecordKey, ce.masters[i].field).Int64()
	quorumtest.NoErr(ce.t, err)
	return n
}

// modelMaster drives one real master as the model's.
type modelMaster struct {
	n     node.Node
	admin *redis.Client
	lock  *protocol.Lock
	state membership.RecordState // of the master when it votes
	field string                 // the lock's counter
}

func modelMasters(t *testing.T, n int) []*modelMaster {
	t.Helper()
	servers, err := localredis.StartN(t.Context(), n, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const name = "model"
	h := fnv.New32a()
	h.Write([]byte(name))
	masters := make([]*modelMaster, n)
	for i, s := range servers {
		m := &modelMaster{lock: protocol.NewLock(name, protocol.Plain), field: protocol.CounterField(int(h.Sum32() % protocol.Counters))}
		m.admin = redis.NewClient(&redis.Options{Addr: s.Addr()})
		if m.n, err = node.Open(s.URL(), node.Config{IOTimeout: 10 * time.Second, StallAfter: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		m.n.Bind(protocol.Binding{CheckRecordState: true, Drift: clock.DefaultDrift(), Admit: func(id protocol.Identity) error {
			m.state = membership.RecordState{Epoch: membership.Epoch{Number: 1, ID: 1}, Incarnation: id.Incarnation(), Phase: membership.Voting}
			return nil
		}})
		if err := m.n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.n.Enter(m.state.Epoch.String(), nil, 1<<62) // whether it votes is for the scripts to say
		t.Cleanup(func() {
			m.n.Close()
			m.admin.Close()
			s.Close()
		})
		masters[i] = m
	}
	return masters
}

// reset makes the master new, and has it vote.
func (m *modelMaster) reset(t *testing.T) {
	t.Helper()
	if err := m.admin.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := m.swap(membership.RecordState{}, m.state); err != nil {
		t.Fatal(err)
	}
}

type modelReply chan protocol.Reply

func (c modelReply) Receive(op *protocol.Op) { c <- op.Reply }

func (m *modelMaster) do(req protocol.Request) (protocol.Reply, error) {
	got := make(modelReply, 1)
	req.Lock, req.TTL, req.Deadline = m.lock, time.Hour, 1<<62
	op := &protocol.Op{Request: &req, To: got}
	if !m.n.Submit(op) {
		return op.Reply, op.Reply.Err
	}
	r := <-got
	if r.Outcome == protocol.Unknown {
		return r, r.Err
	}
	return r, nil
}

func (m *modelMaster) swap(from, to membership.RecordState, fields ...string) error {
	r, err := m.do(protocol.Request{Kind: protocol.CompareAndSetRecord, CompareAndSet: &protocol.CompareAndSet{
		If: []string{"state", from.String()}, Set: append(fields, "state", to.String())}})
	if err == nil && r.Outcome != protocol.Granted {
		err = r.Err
	}
	return err
}

// attemptHolder is the holder id of a model's attempt.
func attemptHolder(attempt int) string {
	return fmt.Sprintf("00000000-0000-8000-0000-000000000000:%d", attempt+1)
}

// Acquire implements Master. A refusal, as by a recovering master, is
// no vote.
func (m *modelMaster) Acquire(attempt int, floor int64) (int64, bool, error) {
	r, err := m.do(protocol.Request{Kind: protocol.Acquire, Holder: attemptHolder(attempt), Token: floor})
	return r.Token, r.Outcome == protocol.Granted, err
}

func (m *modelMaster) Confirm(attempt int, token int64) (bool, error) {
	r, err := m.do(protocol.Request{Kind: protocol.Confirm, Holder: attemptHolder(attempt), Token: token})
	return r.Outcome == protocol.Granted, err
}

func (m *modelMaster) Release(attempt int) (bool, error) {
	r, err := m.do(protocol.Request{Kind: protocol.Release, Holder: attemptHolder(attempt)})
	return r.Outcome == protocol.Granted, err
}

func (m *modelMaster) Vanish() error {
	return m.admin.Del(context.Background(), m.lock.Name).Err()
}

func (m *modelMaster) recovering() membership.RecordState {
	rs := m.state
	rs.Phase, rs.Nonce = membership.Quarantined, 1
	return rs
}

// Crash implements Amnesiac: everything is gone, and the first script
// that looks has the master recover.
func (m *modelMaster) Crash() error {
	if err := m.admin.FlushAll(context.Background()).Err(); err != nil {
		return err
	}
	return m.swap(membership.RecordState{}, m.recovering())
}

func (m *modelMaster) Recover(counter int64) error {
	return m.swap(m.recovering(), m.state, m.field, fmt.Sprint(counter))
}
