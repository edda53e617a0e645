// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/redlock/event"
)

// What masters answer to a write that they refuse.
var (
	//lint:ignore ST1005 Redis says it so
	errOOM     = errors.New("OOM command not allowed when used memory > 'maxmemory'.")
	errMisconf = errors.New("MISCONF Errors writing to the AOF file: No space left on device")
	//lint:ignore ST1005 Redis says it so
	errNoReplicas = errors.New("NOREPLICAS Not enough good replicas to write.")
)

// masterStates keeps the last event of each master.
type masterStates struct {
	mu   sync.Mutex
	last map[string]event.Master
}

func (s *masterStates) observer() redlock.Option {
	return redlock.WithObserver(&event.Observer{Master: func(e event.Master) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == nil {
			s.last = make(map[string]event.Master)
		}
		s.last[e.Master] = e
	}})
}

func (s *masterStates) of(master string) event.Master {
	synctest.Wait()
	return s.now(master)
}

func (s *masterStates) now(master string) event.Master {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[master]
}

// A minority of masters refuses writes. Locks go on, and the log and the state of the masters say why, for a client that
// was there and for one that comes. When a master writes again, an idle client sees it.
func TestSim_mastersRefuseWrites_stateSaysWhy(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	for _, refusal := range []error{errOOM, errMisconf, errNoReplicas} {
		code, _, _ := strings.Cut(refusal.Error(), " ")
		t.Run(code, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				var states masterStates
				later := make([]masterStates, 6)
				var log syncBuffer
				a := c.client(states.observer(), redlock.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
				held := mustLock(t, a.Mutex("held"))
				for _, m := range c.masters[:2] {
					m.RefuseWrites(refusal)
				}
				wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
				all := []*masterStates{&states}
				for i := range later {
					c.client(later[i].observer())
					all = append(all, &later[i])
				}
				for _, s := range all {
					for i, m := range []string{"m0", "m1", "m2"} {
						e := s.of(m)
						if want := []event.State{event.MasterRefuses, event.MasterRefuses, event.MasterVotes}[i]; e.To != want {
							t.Errorf("%s: %v, want %v", m, e.To, want)
						}
						if i < 2 {
							wantErr(t, e.Err, node.ErrNoWrites)
							wantText(t, e.Err, m, refusal.Error())
						}
					}
				}
				if !wantLogged(t, log.String(), "m1", refusal.Error(), "until somebody acts") {
					t.Errorf("no error in the log:\n%s", log.String())
				}
				time.Sleep(time.Minute)
				wantErr(t, held.Err(), nil)
				wantErr(t, held.Unlock(t.Context()), nil)
				for _, m := range c.masters[:2] {
					m.RefuseWrites(nil)
				}
				time.Sleep(2 * time.Second)
				for _, s := range all { // each by itself, although one of them keeps the clock notes fresh
					if e := s.of("m1"); e.To != event.MasterVotes || s == &states && e.Away < time.Minute {
						t.Errorf("the last event is %+v", e)
					}
				}
				time.Sleep(time.Minute)
				c.wantVotes("x", mustLock(t, a.Mutex("x")).Holder(), 5)
			})
		})
	}
}

// Two of five masters are short of memory. One refuses the vote, the other grants it and refuses to store the token. So four
// of five grant a read lock, and the round fails. The next one needs no second trip, so Lock has the lock soon.
func TestSim_twoMastersRefuseTheToken_readLockIsGranted(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		a.faultOn("acquire", nodetest.Fault{Refuse: errOOM}, 1)
		a.faultOn("acquire", nodetest.Fault{ReplyDelay: time.Millisecond}, 4)
		ahead := time.Now().Add(30 * time.Second).UnixMicro()
		for i, m := range c.masters { // their votes differ, so that a second trip is needed
			counter := "1"
			if i == 0 {
				counter = strconv.FormatInt(ahead, 10)
			}
			_ = m.Do(func(db *nodetest.DB) {
				for k := range protocol.Counters {
					db.HSet(protocol.RecordKey, protocol.CounterField(k), counter)
				}
			})
		}
		a.faultOn("confirm", nodetest.Fault{Refuse: errOOM}, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		lease, err := a.RWMutex("x").RLock(ctx)
		wantErr(t, err, nil)
		if d := time.Since(began); d > time.Second {
			t.Errorf("granted after %v", d)
		}
		if lease.Token() <= ahead {
			t.Errorf("token %d", lease.Token())
		}
	})
}

// Two masters of five refuse and two are silent: to wait may help, as it would if the two that refuse were down. If three
// refuse, it does not.
func TestSim_minorityRefuses_lockWaitsForTheOthers(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		c.masters[0].RefuseWrites(errMisconf)
		c.masters[1].RefuseWrites(errMisconf)
		c.masters[2].Pause()
		time.AfterFunc(time.Second, c.masters[2].Resume)
		began := time.Now()
		lease, err := a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		if d := time.Since(began); d < time.Second || d > 4*time.Second {
			t.Errorf("granted after %v", d)
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
		c.masters[2].RefuseWrites(errMisconf)
		_, err = a.Mutex("x").Lock(t.Context())
		wantErr(t, err, redlock.ErrRefused)
		wantErr(t, err, node.ErrNoWrites)
		wantText(t, err, "MISCONF")
		if err := a.Ready(); err == nil || strings.Count(err.Error(), "m0") != 1 {
			t.Errorf("Ready names a master twice, or not: %v", err)
		}
	})
}

// A master that lost its record and refuses writes, or this one, cannot be quarantined. The client tries again once a second, and not
// as fast as it can.
func TestSim_refusesWritesAndRecovers_nobodySpins(t *testing.T) {
	denied := errors.New("NOPERM this user has no permissions to run the 'hset' command")
	for name, refuses := range map[string]func(m *nodetest.Master, record *error){
		"disk is full":      func(m *nodetest.Master, _ *error) { m.RefuseWrites(errMisconf) },
		"a right was taken": func(_ *nodetest.Master, record *error) { *record = denied },
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				held := mustLock(t, a.Mutex("x"))
				var mu sync.Mutex
				var writes int
				var record error
				a.Ways[1].SetFault(func(cmd nodetest.Command) nodetest.Fault {
					mu.Lock()
					defer mu.Unlock()
					if cmd.Name != "record" {
						return nodetest.Fault{}
					}
					writes++
					return nodetest.Fault{Refuse: record}
				})
				c.masters[1].Flush()
				mu.Lock()
				refuses(c.masters[1], &record)
				mu.Unlock()
				time.Sleep(20 * time.Second)
				mu.Lock()
				if writes < 5 || writes > 40 {
					t.Errorf("%d attempts to write the record in 20 s", writes)
				}
				record = nil
				mu.Unlock()
				c.masters[1].RefuseWrites(nil)
				time.Sleep(40 * time.Second)
				c.wantVotes("y", mustLock(t, a.Mutex("y")).Holder(), 3)
				wantErr(t, held.Err(), nil)
			})
		})
	}
}

// A program with another maximum TTL comes to masters that were all restarted with their data: it is told, and does not wait for ever.
func TestSim_open_restartedMastersOfAnotherList_saysSo(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		for _, m := range c.masters {
			m.Crash()
			m.Restart()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m, err := c.masters.Open(ctx, nil, redlock.WithMaxTTL(20*time.Second))
		if err == nil {
			defer m.Close()
			_, err = m.Mutex("x").Lock(ctx)
		}
		wantErr(t, err, redlock.ErrRefused)
		wantText(t, err, "30s")
	})
}

// The operator's commands say so, on real masters.
func TestStatus_masterRefusesWrites(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	full := func(bytes string) { noErr(t, ms.direct[1].ConfigSet(t.Context(), "maxmemory", bytes).Err()) }
	full("1")
	err := admin.Init(t.Context(), list(ms.urls()), nil, admin.NothingWasEverLocked)
	wantIs(t, err, redlock.ErrRefused, node.ErrNoWrites)
	wantText(t, err, ms.servers[1].Addr(), "OOM", "maxmemory")
	full("0")
	c := ms.begin()
	full("1")
	noErr(t, ms.direct[2].ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	for _, minority := range []bool{false, true} {
		if minority {
			noErr(t, ms.direct[2].ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
		}
		s, err := admin.ReadStatus(t.Context(), list(ms.urls()))
		noErr(t, err)
		want := map[bool][]string{false: {"nothing can be locked", "OOM", "NOREPLICAS", "min-replicas-to-write"}, true: {"a quorum votes", ms.servers[1].Addr(), "OOM"}}[minority]
		wantText(t, errors.New(s.Text), want...)
		if want := map[bool]admin.Standing{false: admin.TooFewVote, true: admin.SomeRecover}[minority]; s.Standing != want {
			t.Errorf("%v: %s", s.Standing, s.Text)
		}
		for _, m := range s.Masters {
			refuses := m.Name == ms.servers[1].Addr() || !minority && m.Name == ms.servers[2].Addr()
			if refuses != (m.State == event.MasterRefuses) || m.Votes == refuses || refuses != errors.Is(m.Err, node.ErrNoWrites) {
				t.Errorf("%+v", m)
			}
		}
	}
	noErr(t, locked(t, c.Mutex("x")).Unlock(t.Context()))
	waited := make(chan *admin.Status, 1)
	go func() {
		s, _ := admin.AwaitVotes(t.Context(), list(ms.urls()), func(string, time.Duration) { full("0") })
		waited <- s
	}()
	select {
	case s := <-waited:
		if s == nil || s.Standing != admin.AllVote {
			t.Errorf("%+v", s)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the wait does not end")
	}
}
