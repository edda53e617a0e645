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
	rec     history.Recorder
}

// Thread returns a Thread. Its name in the history is that of the client, a dot and name. Call it after Ready.
func (s *Session) Thread(name string) *Thread {
	return &Thread{session: s, rec: history.Recorder{
		Client: s.Name + "." + name, Now: history.Now, Ahead: true,
		Append:  func(op history.Op) error { return s.Records.Append(op) },
		Failure: failure,
	}}
}

// failure is what is known of a call that returned an error: the library said that it did not grant, and nothing else for sure.
func failure(kind history.Kind, _ error) (history.Outcome, string) {
	switch kind {
	case history.KindLock:
		return history.Failed, "not granted"
	case history.KindExtend:
		return history.Unknown, "not extended"
	}
	return history.Unknown, "not confirmed"
}

// Err returns why an operation could not be recorded. The record is then incomplete, and the client should end with the error.
func (t *Thread) Err() error {
	if err := t.rec.Err(); err != nil {
		return fmt.Errorf("client: %s: %w", t.rec.Client, err)
	}
	return nil
}

// Deadline returns an instant of the wall clock or of package time's monotonic clock as a time of the history. It reads the history's clock
// first. So if the process is stopped in between, the result is too early and never too late.
func Deadline(at time.Time) int64 {
	now := history.Now()
	return now + int64(time.Until(at))
}

// Lock records a call that takes a lock, waiting or not. It returns the grant, and whether there is one.
func (t *Thread) Lock(lock string, take func() (Grant, error)) (g Grant, ok bool) {
	op := history.Op{Kind: history.KindLock, Lock: lock, Mode: history.Exclusive}
	err := t.rec.Do(&op, func() (err error) {
		if g, err = take(); err == nil {
			op.Holder, op.Token, op.Deadline = g.Holder, g.Token, Deadline(g.ValidUntil)
		}
		return err
	})
	if err != nil {
		return Grant{}, false
	}
	t.session.Granted(lock)
	return g, true
}

// Extend records a call that prolongs the grant of a holder. extend returns the new end.
func (t *Thread) Extend(lock, holder string, extend func() (time.Time, error)) bool {
	op := history.Op{Kind: history.KindExtend, Lock: lock, Holder: holder}
	return nil == t.rec.Do(&op, func() error {
		until, err := extend()
		if err == nil {
			op.Deadline = Deadline(until)
		}
		return err
	})
}

// Unlock records a call that releases the lock of a holder. The client claims the lock until the call. Unlock writes a record before the call
// and one after it: an unlock that was executed while the client was killed would otherwise leave a claim that nobody makes.
func (t *Thread) Unlock(lock, holder string, release func() error) {
	op := history.Op{Kind: history.KindUnlock, Lock: lock, Holder: holder}
	_ = t.rec.Do(&op, func() error {
		t.session.Released(lock)
		return release()
	})
}
