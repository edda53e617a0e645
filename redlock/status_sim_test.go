// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/redlock/event"
)

// Whatever happens to masters, an operator's Status and the Observers of a client say the same of each, in the same words.
func TestSim_statesOfMasters_statusSaysWhatObserversHear(t *testing.T) {
	const votes, recovers, refuses, down = event.MasterVotes, event.MasterRecovers, event.MasterRefuses, event.MasterDown
	for name, tc := range map[string]struct {
		happens func(ms simtest.Masters)
		want    []event.State
	}{
		"nothing":        {func(simtest.Masters) {}, []event.State{votes, votes, votes}},
		"one is flushed": {func(ms simtest.Masters) { ms[1].Flush() }, []event.State{votes, recovers, votes}},
		"one restarts":   {func(ms simtest.Masters) { ms[2].Restart() }, []event.State{votes, votes, recovers}},
		"one is gone":    {func(ms simtest.Masters) { ms[0].Crash() }, []event.State{down, votes, votes}},
		"one refuses writes": {func(ms simtest.Masters) {
			ms[1].RefuseWrites(errMisconf)
		}, []event.State{votes, refuses, votes}},
		"one becomes a replica":  {func(ms simtest.Masters) { asReplica(ms, 1) }, []event.State{votes, refuses, votes}},
		"two are flushed":        {func(ms simtest.Masters) { ms[0].Flush(); ms[1].Flush() }, []event.State{recovers, recovers, votes}},
		"one is gone, one empty": {func(ms simtest.Masters) { ms[0].Crash(); ms[1].Flush() }, []event.State{down, recovers, votes}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ms := simtest.New(3)
				noErr(t, ms.Init(t.Context()))
				var mu sync.Mutex
				heard := make(map[string]event.State)
				c, err := ms.Open(t.Context(), nil, redlock.WithObserver(&event.Observer{Master: func(e event.Master) {
					mu.Lock()
					defer mu.Unlock()
					heard[e.Master] = e.To
				}}))
				noErr(t, err)
				defer func() { _ = c.Close() }()
				l := mustLock(t, c.Mutex("in use")) // so that the client looks each second
				tc.happens(ms)
				time.Sleep(5 * time.Second)
				want := make(map[string]event.State)
				for i, m := range ms {
					want[m.Name()] = tc.want[i]
				}
				mu.Lock()
				if !maps.Equal(heard, want) {
					t.Errorf("the Observers heard %v, want %v", heard, want)
				}
				mu.Unlock()
				clk := clock.Monotonic()
				list := admin.List{Options: []redlock.Option{redlock.WithClock(clk)}}
				for _, m := range ms {
					list.Nodes = append(list.Nodes, m.Node(node.Config{Clock: clk}))
				}
				s, err := admin.ReadStatus(t.Context(), list)
				noErr(t, err)
				for _, m := range s.Masters {
					if m.State != want[m.Name] || (m.Cause == "") != (m.State == votes) {
						t.Errorf("the Status says %v (%s) of %s, and the Observers heard %v", m.State, m.Cause, m.Name, want[m.Name])
					}
				}
				for _, n := range list.Nodes {
					_ = n.Close()
				}
				_ = l.Unlock(t.Context())
			})
		})
	}
}

// Two of three masters were emptied, and the third votes. A client that was not there then counts the masters as its list of them has them, and
// Status agrees with it, and with itself.
func TestSim_aMinorityVotes_countListAndStatusAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := simtest.New(3)
		noErr(t, ms.Init(t.Context()))
		witness, err := ms.Open(t.Context(), nil)
		noErr(t, err)
		defer witness.Close()
		l := mustLock(t, witness.Mutex("in use"))
		defer func() { _ = l.Unlock(t.Context()) }()
		ms[1].Flush()
		ms[2].Flush()
		time.Sleep(5 * time.Second)
		c, err := ms.Open(t.Context(), nil)
		noErr(t, err)
		defer c.Close()
		for name, err := range map[string]error{"Ready": c.Ready(), "Ready of the witness": witness.Ready()} {
			if err == nil || !strings.Contains(err.Error(), "1 of 3 masters vote") || strings.Contains(err.Error(), ms[0].Name()) || strings.Contains(err.Error(), ": votes") {
				t.Errorf("%s: %v", name, err)
			}
		}
		list := admin.List{Options: []redlock.Option{redlock.WithClock(clock.Monotonic())}}
		for _, m := range ms {
			list.Nodes = append(list.Nodes, m.Node(node.Config{}))
		}
		s, err := admin.ReadStatus(t.Context(), list)
		noErr(t, err)
		for _, m := range s.Masters {
			if m.Votes != (m.State == event.MasterVotes) || m.Votes != (m.Name == ms[0].Name()) {
				t.Errorf("%s: votes %t, %v: %s", m.Name, m.Votes, m.State, m.Text)
			}
		}
		if strings.Contains(s.Text, ms[0].Name()+" votes") {
			t.Errorf("of a master that votes: %s", s.Text)
		}
		for _, n := range list.Nodes {
			_ = n.Close()
		}
	})
}

// asReplica has a master become a replica of another one: it says so when a client connects.
func asReplica(ms simtest.Masters, i int) {
	id := ms[i].Identity()
	id.Role = "slave"
	ms[i].Crash()
	ms[i].SetIdentity(id)
	ms[i].Restart()
}
