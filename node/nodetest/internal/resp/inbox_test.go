// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// No reply overtakes another. What was sent before the end is read before its error, unless the connection broke.
func TestInbox_Read_inOrderAndThenTheError(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			in, gone := NewInbox(&mu), errors.New("gone")
			began := time.Now()
			mu.Lock()
			in.Send(Status("late"), began.Add(time.Second))
			in.Send(Status("early"), began)
			mu.Unlock()
			if breaks {
				time.AfterFunc(time.Millisecond, func() { mu.Lock(); defer mu.Unlock(); in.Break(gone) })
			}
			b := make([]byte, 64)
			n, err := in.Read(b)
			if breaks {
				if n != 0 || err != gone || time.Since(began) != time.Millisecond {
					t.Errorf("broken: %q, %v after %v", b[:n], err, time.Since(began))
				}
				return
			}
			if string(b[:n]) != "+late\r\n+early\r\n" || err != nil || time.Since(began) != time.Second {
				t.Errorf("%q, %v after %v", b[:n], err, time.Since(began))
			}
			_ = in.SetReadDeadline(time.Now().Add(time.Second))
			if n, err := in.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("at the deadline: %q, %v", b[:n], err)
			}
			mu.Lock()
			in.Send(Status("last"), time.Now())
			in.End(gone)
			mu.Unlock()
			if n, err := in.Read(b); string(b[:n]) != "+last\r\n" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
			if _, err := in.Read(b); err != gone {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}
