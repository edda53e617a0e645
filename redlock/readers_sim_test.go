// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// Readers of one process have the lock together, on a lock that is free and when a writer gives it back. If each waited for the trips of those
// before it, the last of a hundred would have it after a hundred trips. Then a writer gets it in its turn.
func TestSim_readersOfOneProcess_haveItTogether(t *testing.T) {
	const n, trip = 100, 70 * time.Millisecond
	for name, taken := range map[string]bool{"free": false, "a writer has it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := farMasters(t, 5, trip)
				c, other := f.open(), f.open()
				lock := c.RWMutex("config")
				var before *redlock.Lease
				if taken {
					before = locked(t, other.RWMutex("config"))
				}
				var all sync.WaitGroup
				done := make(chan *redlock.Lease, n)
				for range n {
					all.Go(func() {
						l, err := lock.RLock(t.Context())
						noErr(t, err)
						done <- l
					})
				}
				if taken {
					time.Sleep(time.Second)
					unlock(t, before)
				}
				began := time.Now()
				all.Wait()
				if took := time.Since(began); took > 12*trip {
					t.Errorf("%d readers had the lock after %v", n, took)
				}
				writer := make(chan *redlock.Lease, 1)
				go func() { writer <- locked(t, other.RWMutex("config")) }()
				time.Sleep(time.Second)
				for range n {
					unlock(t, <-done)
				}
				unlock(t, <-writer)
				noErr(t, c.Close())
				noErr(t, other.Close())
			})
		})
	}
}

// Counters run ahead of the clocks, as in the first minute of a list, and that of one master is one ahead of the others, as when it got two readers'
// requests the other way round. Each reader's vote there would be the vote of the next one elsewhere, and would be confirmed nowhere.
func TestSim_readersOfOneProcess_oneMasterCountsAhead_haveItTogether(t *testing.T) {
	const n, trip = 64, 70 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		f := farMasters(t, 3, trip)
		c := f.open()
		lock := c.RWMutex("config")
		first, err := lock.RLock(t.Context()) // from now on the client knows the counters
		noErr(t, err)
		for i, m := range f.masters {
			noErr(t, m.Do(func(db *nodetest.DB) {
				ahead := first.Token() + int64(i/2)
				db.HSet(protocol.RecordKey, protocol.NewLock("config", protocol.Read).Counter, fmt.Sprint(ahead))
			}))
		}
		before, began := c.Stats().Rounds, time.Now()
		var all sync.WaitGroup
		leases := make([]*redlock.Lease, n)
		for i := range n {
			all.Go(func() {
				var err error
				leases[i], err = lock.TryRLock(t.Context())
				noErr(t, err)
			})
			synctest.Wait() // its requests are on their way in the same order to each master
		}
		all.Wait()
		if took, rounds := time.Since(began), c.Stats().Rounds-before; took > 6*trip || rounds > n+1 { // the first one proposed too little
			t.Errorf("%d readers had the lock after %v and %d rounds", n, took, rounds)
		}
		for _, l := range append(leases, first) {
			unlock(t, l)
		}
		noErr(t, c.Close())
	})
}

// A writer of another process came after the readers, and waits. Masters refuse readers that ask past it, and those behind it in this process keep
// their places: they are served ahead of the writer, a trip each.
func TestSim_readersOfOneProcess_writerWaitsBehind_keepTheirPlaces(t *testing.T) {
	const n, trip = 20, 70 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		f := farMasters(t, 5, trip)
		c, first, last := f.open(), f.open(), f.open()
		before := locked(t, first.RWMutex("config"))
		lock := c.RWMutex("config")
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				l, err := lock.RLock(t.Context())
				noErr(t, err)
				time.Sleep(time.Second)
				unlock(t, l)
			})
		}
		time.Sleep(time.Second)
		writer := make(chan time.Time, 1)
		go func() {
			l := locked(t, last.RWMutex("config"))
			at := time.Now()
			unlock(t, l)
			writer <- at
		}()
		time.Sleep(time.Second)
		began := time.Now()
		unlock(t, before)
		all.Wait()
		read := time.Now()
		if took := read.Sub(began) - time.Second; took > (n+12)*trip {
			t.Errorf("%d readers ahead of a writer had the lock after %v", n, took)
		}
		if at := <-writer; at.Before(read.Add(-trip)) {
			t.Errorf("the writer had the lock %v before the last reader gave it back", read.Sub(at))
		}
	})
}
