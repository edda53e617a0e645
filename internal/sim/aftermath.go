// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/redlock"
)

// settle ends what operators began, and starts the clients anew that have a list that was left.
func (w *world) settle() error {
	if w.op == nil {
		return w.restartKilled()
	}
	w.stats.Acts = w.op.acts
	if err := w.op.settle(); err != nil {
		return err
	}
	for i, m := range w.members {
		if m.use() != nil && w.op.isRight(m.list) {
			continue
		}
		m.close()
		if err := m.openList(w.op.right); err != nil {
			return fmt.Errorf("sim: client %d, once all masters voted: %w", i, err)
		}
	}
	return nil
}

// restartKilled starts the clients that were killed when their workers had ended.
func (w *world) restartKilled() error {
	for _, m := range w.members {
		if m.running() == nil {
			m.close()
			if err := m.reopen(); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// probe takes every lock once more, for the checker of C7. Every client takes one.
func (w *world) probe() (failed error) {
	for i := range max(len(w.locks), len(w.members)) {
		l, c := w.locks[i%len(w.locks)], w.members[i%len(w.members)].client
		ctx, cancel := context.WithTimeout(context.Background(), 4*w.cfg.Heal())
		op := history.Op{Kind: history.KindProbe, Client: "probe", Lock: l.name, Call: w.now(), Outcome: history.Failed}
		m := redlock.Locker(c.Mutex(l.name))
		if l.rw {
			m = c.RWMutex(l.name).Locker()
		}
		lease, err := patient(ctx, m)
		op.Return = w.now()
		if err == nil {
			op.Outcome = history.OK
			_ = lease.Unlock(ctx)
		} else {
			op.Error = err.Error()
			failed = errors.Join(failed, fmt.Errorf("sim: client %d: %w", i%len(w.members), err))
		}
		w.record(op)
		cancel()
	}
	return failed
}

// readRegisters reads each register once more. All workers have ended, so the last accepted write must be there.
func (w *world) readRegisters() {
	for _, l := range w.locks {
		op := history.Op{Kind: history.KindRead, Client: "registers", Lock: l.name, Call: w.now(), Fenced: true, Outcome: history.OK}
		l.mu.Lock()
		op.Value = l.value
		l.mu.Unlock()
		op.Return = w.now()
		w.record(op)
	}
}

// patient is Lock that also waits while no quorum answers.
func patient(ctx context.Context, m redlock.Locker) (*redlock.Lease, error) {
	for {
		lease, err := m.Lock(ctx)
		if err == nil || ctx.Err() != nil {
			return lease, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// scan notes every key that is left, but for the node records: all should be gone.
func (w *world) scan() {
	for _, m := range w.masters {
		for _, key := range m.Keys() {
			if key != w.recordKey() {
				w.h.Keys = append(w.h.Keys, history.Key{Node: m.Name(), Lock: key, At: w.now(), TTL: m.PTTL(key)})
			}
		}
	}
}
