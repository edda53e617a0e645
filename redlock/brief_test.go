// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// brief is a program that lives for a second: it opens a client, tries a lock once and ends. It returns the error of whichever
// failed.
func (c *cluster) brief(opts ...redlock.Option) error {
	m, err := c.masters.Open(c.t.Context(), nil, opts...)
	if err != nil {
		return err
	}
	defer m.Close()
	lease, err := m.Mutex("job").TryLock(c.t.Context())
	if err == nil {
		err = lease.Unlock(c.t.Context())
	}
	time.Sleep(time.Second)
	return err
}

const wholeWait = redlock.DefaultMaxTTL + 2*(redlock.DefaultMaxTTL/100+2*time.Millisecond)

// Issue 25, 17: masters are restarted one after the other, and only programs run that live for a second. Each master votes again
// when its wait is over, so that no job is skipped, and what a program is told of the wait comes true.
func TestSim_briefProcesses_recoverMasters(t *testing.T) {
	for name, lose := range map[string]func(c *cluster, i int){
		"restarted": func(c *cluster, i int) { c.masters[i].Restart() },
		"flushed":   func(c *cluster, i int) { c.masters[i].Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				c.init()
				wantErr(t, c.brief(), nil)
				for i := range c.masters {
					lose(c, i)
					start := time.Now()
					for time.Since(start) < wholeWait+5*time.Second {
						wantErr(t, c.brief(), nil)
						if early := time.Since(start) < wholeWait; early && c.phase(i) == membership.Voting {
							t.Fatalf("master %d votes after %v", i, time.Since(start))
						}
						time.Sleep(2 * time.Second)
					}
					if c.phase(i) != membership.Voting {
						t.Fatalf("master %d does not vote after %v", i, time.Since(start))
					}
				}
			})
		})
	}
}

// The second of three masters is restarted while the first one waits: no program sees a quorum vote any more. But one that ended
// vouched for the first one, and wrote that down. So no operator is needed.
func TestSim_briefProcesses_secondMasterLostMeanwhile_recoverBoth(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		c.masters[0].Restart()
		wantErr(t, c.brief(), nil)
		time.Sleep(10 * time.Second)
		c.masters[1].Restart()
		start := time.Now()
		for time.Since(start) < 21*time.Second {
			_ = c.brief() // nobody can lock
			time.Sleep(time.Second)
		}
		wantErr(t, c.brief(), nil)
		for time.Since(start) < 21*time.Second+wholeWait+5*time.Second {
			wantErr(t, c.brief(), nil)
			time.Sleep(2 * time.Second)
		}
		if c.phase(0) != membership.Voting || c.phase(1) != membership.Voting {
			t.Errorf("the masters are %c and %c", c.phase(0), c.phase(1))
		}
	})
}

// phase is that of master i, None if it lost its record.
func (c *cluster) phase(i int) membership.Phase {
	c.t.Helper()
	text := ""
	err := c.masters[i].Do(func(db *nodetest.DB) { text, _ = db.HGet(protocol.RecordKey, membership.FieldState) })
	wantErr(c.t, err, nil)
	rs, err := membership.ParseRecordState(text)
	wantErr(c.t, err, nil)
	if id := c.masters[i].Identity(); rs.Incarnation != id.Incarnation() {
		return membership.None
	}
	return rs.Phase
}
