// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// More callers than far masters can answer in time lock and unlock without a pause. A lease that is held goes on: its renewals do not stand
// behind what those callers ask.
func TestSim_farMasters_manyCallers_heldLeaseIsRenewed(t *testing.T) {
	needs.Test(t)
	synctest.Test(t, func(t *testing.T) {
		f := farMasters(t, 5, 300*time.Millisecond)
		c := f.open()
		held := locked(t, c.Mutex("held"))
		busy, stop := context.WithTimeout(t.Context(), 15*time.Second)
		defer stop()
		var work sync.WaitGroup
		for w := range 2000 {
			work.Go(func() {
				for m := c.Mutex(fmt.Sprint("job/", w)); busy.Err() == nil; {
					if lease, err := m.TryLock(busy); err == nil {
						_ = lease.Unlock(busy)
					} else {
						time.Sleep(300 * time.Millisecond)
					}
				}
			})
		}
		began := time.Now()
		select {
		case <-held.Context().Done():
			t.Errorf("after %v: %v", time.Since(began), held.Err())
		case <-busy.Done():
		}
		stop()
		work.Wait()
	})
}
