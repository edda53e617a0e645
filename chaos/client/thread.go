// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Grant is what a library says of a lock that it granted.
type Grant struct {
	Holder     string // differs from grant to grant
	Token      int64  // the fencing token; 0 if the library has none
	ValidUntil time.Time
}

// Thread records the operations of one thread of control, which has at most one operation in flight. One goroutine uses it.
type Thread struct {
	session *Session
	name    string
	err     error // the first record that could not be written
}

// Thread returns a Thread. Its name in the history is that of the client, a dot and name. Call it after Ready.
func (s *Session) Thread(name string) *Thread {
	return &Thread{session: s, name: s.Name + "." + name}
}

// Err returns why an operation could not be recorded. The record is then incomplete, and the client should end with the error.
func (t *Thread) Err() error {
	if t.err != nil {
		return fmt.Errorf("client: %s: %w", t.name, t.err)
	}
	return nil
}

func (t *Thread) append(op history.Op) {
	if t.err == nil {
		t.err = t.session.Records.Append(op)
	}
}

// Deadline returns an instant of the wall clock or of package time's monotonic clock as a time of the history. It reads the history's clock
// first. So if the process is stopped in between, the result is too early and never too late.
func Deadline(at time.Time) int64 {
	now := history.Now()
	return now + int64(time.Until(at))
}

// Lock records a call that takes a lock, waiting or not. It returns the grant, and whether there is one.
func (t *Thread) Lock(lock string, take func() (Grant, error)) (Grant, bool) {
	op := history.Op{Kind: history.KindLock, Client: t.name, Lock: lock, Mode: history.Exclusive, Call: history.Now()}
	g, err := take()
	if err != nil {
		op.Outcome, op.Error, op.Return = history.Failed, "not granted", history.Now()
		t.append(op)
		return Grant{}, false
	}
	op.Outcome, op.Holder, op.Token, op.Deadline = history.OK, g.Holder, g.Token, Deadline(g.ValidUntil)
	op.Return = history.Now()
	t.append(op)
	t.session.Granted(lock)
	return g, true
}

// Extend records a call that prolongs the grant of a holder. extend returns the new end.
func (t *Thread) Extend(lock, holder string, extend func() (time.Time, error)) bool {
	op := history.Op{Kind: history.KindExtend, Client: t.name, Lock: lock, Holder: holder, Call: history.Now(), Outcome: history.Unknown}
	until, err := extend()
	if err == nil {
		op.Outcome, op.Deadline = history.OK, Deadline(until)
	} else {
		op.Error = "not extended"
	}
	op.Return = history.Now()
	t.append(op)
	return err == nil
}

// Unlock records a call that releases the lock of a holder. The client claims the lock until the call. Unlock writes a record before the call
// and one after it: an unlock that was executed while the client was killed would otherwise leave a claim that nobody makes.
func (t *Thread) Unlock(lock, holder string, release func() error) {
	op := history.Op{Kind: history.KindUnlock, Client: t.name, Lock: lock, Holder: holder, Call: history.Now(), Return: history.Never, Outcome: history.Unknown}
	t.append(op)
	t.session.Released(lock)
	err := release()
	if err == nil {
		op.Outcome = history.OK
	} else {
		op.Error = "not confirmed"
	}
	op.Return = history.Now()
	t.append(op)
}
