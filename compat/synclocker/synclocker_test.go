// SPDX-License-Identifier: Apache-2.0

package synclocker_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/compat/synclocker"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// failures notes what fail was told.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// want fails unless fail was told each of targets since the last call, in this order.
func (f *failures) want(t *testing.T, targets ...error) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) != len(targets) {
		t.Fatalf("told %v, want %v", f.errs, targets)
	}
	for i, target := range targets {
		if !errors.Is(f.errs[i], target) {
			t.Errorf("told %v, want %v", f.errs[i], target)
		}
	}
	f.errs = nil
}

// Goroutines of two programs, with one Locker each. Only the lock guards the counter.
func TestLocker_twoPrograms_excludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		var told failures
		counter := 0
		var wg sync.WaitGroup
		for _, c := range []*redlock.Client{client, masters.Client()} {
			l := synclocker.New(c.Mutex("lock"), told.fail)
			for range 4 {
				wg.Go(func() {
					for range 5 {
						l.Lock()
						was := counter
						time.Sleep(time.Millisecond)
						counter = was + 1
						l.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if counter != 40 {
			t.Errorf("counted %d, want 40", counter)
		}
		told.want(t)
	})
}

// An outage is told, and Lock returns only when it has the lock.
func TestLocker_outage_toldAndWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		var told failures
		l := synclocker.New(client.Mutex("lock", redlock.WithOutageTimeout(0)), told.fail)
		masters.Outage(redlocktest.All)
		locked := make(chan struct{})
		go func() {
			l.Lock()
			close(locked)
		}()
		time.Sleep(time.Second)
		select {
		case <-locked:
			t.Fatal("locked in an outage")
		default:
		}
		masters.Heal()
		<-locked
		told.mu.Lock()
		if len(told.errs) == 0 || !errors.Is(told.errs[0], redlock.ErrUnreachable) {
			t.Errorf("told %v", told.errs)
		}
		told.errs = nil
		told.mu.Unlock()
		masters.Outage(redlocktest.All)
		l.Unlock() // not confirmed, which is no loss
		told.want(t)
	})
}

// A loss is told once, as soon as it is known. The next Lock works.
func TestLocker_lost_toldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		var told failures
		l := synclocker.New(client.Mutex("lock"), told.fail)
		l.Lock()
		masters.Lose("lock")
		time.Sleep(redlock.DefaultTTL / 2)
		told.want(t, redlock.ErrLost)
		l.Unlock()
		told.want(t)
		l.Unlock()
		told.want(t, redlock.ErrReleased)
		l.Lock()
		time.Sleep(time.Minute) // renewed
		l.Unlock()
		told.want(t)

		l.Lock()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		told.want(t, redlock.ErrClosed)
		l.Unlock()
		told.want(t)
	})
}

// A fail that panics ends Lock, and leaves nothing locked.
func TestLocker_failPanics_goesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := redlocktest.New(t)
		for name, l := range map[string]sync.Locker{
			"nil fail": synclocker.New(client.Mutex(""), nil),
			"no lock":  synclocker.New(nil, func(err error) { panic(err) }),
		} {
			for range 2 { // the second does not wait for the first
				func() {
					defer func() {
						if err, _ := recover().(error); !errors.Is(err, redlock.ErrConfig) {
							t.Errorf("%s: panic of %v", name, err)
						}
					}()
					l.Lock()
					t.Errorf("%s: locked", name)
				}()
			}
		}
	})
}
