// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/redlocktest"
)

// stage is where a scene plays: a client on masters in memory that an instance shows to Prometheus.
type stage struct {
	t *testing.T
	*recording
	m       *metrics.Metrics
	client  *redlock.Client
	masters *redlocktest.Masters
}

// locks takes a lock every ten seconds, and records.
func (s *stage) locks(d time.Duration) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, _ = s.client.Mutex("a").TryDo(s.t.Context(), func(context.Context, *redlock.Lease) error { return nil })
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Second):
			}
		}
	}()
	s.run(s.t, d)
	close(stop)
	<-done
}

// observed has the Observer told of n things, one a minute, while it is scraped.
func (s *stage) observed(n int, tell func(o *event.Observer)) {
	o := s.m.Observer()
	for range n {
		s.run(s.t, time.Minute)
		tell(o)
	}
	s.run(s.t, time.Minute)
}

// scene is what happens, and the alerts that fire then.
type scene struct {
	name  string
	fire  []string
	plays func(s *stage)
}

var scenes = []scene{
	{"all is well", nil, func(s *stage) { s.locks(20 * time.Minute) }},
	{"one master was out of reach for 5 s", nil, func(s *stage) {
		s.locks(time.Minute)
		s.masters.Outage(1)
		time.Sleep(5 * time.Second)
		s.masters.Heal()
		s.locks(10 * time.Minute)
	}},
	{"the client was closed", nil, func(s *stage) {
		s.locks(time.Minute)
		_ = s.client.Close()
		s.run(s.t, 20*time.Minute)
	}},
	{"one master of three was restarted", nil, func(s *stage) {
		s.locks(time.Minute)
		s.masters.Restart(1)
		s.locks(10 * time.Minute)
	}},
	{"one master of three is down", []string{"RedlockMasterDown", "RedlockOneMasterFromNoQuorum"}, func(s *stage) {
		s.locks(time.Minute)
		s.masters.Outage(1)
		s.locks(10 * time.Minute)
	}},
	{"all masters are down", []string{"RedlockLocksFail", "RedlockMasterDown", "RedlockNoQuorum", "RedlockOneMasterFromNoQuorum"}, func(s *stage) {
		s.locks(time.Minute)
		s.masters.Outage(redlocktest.All)
		s.locks(12 * time.Minute)
	}},
	{"the last program ends while a master recovers", []string{"RedlockNobodyRecoversAMaster"}, func(s *stage) {
		s.locks(time.Minute)
		s.masters.Restart(1)
		s.run(s.t, 2*every)
		_ = s.client.Close()
		s.run(s.t, 5*time.Minute)
	}},
	{"a program ends while a master recovers, and another one goes on", nil, func(s *stage) {
		other := metrics.New(metrics.Config{})
		_ = s.masters.Client(redlock.WithObserver(other.Observer()))
		s.Serve("host-2", other)
		s.locks(time.Minute)
		s.masters.Restart(1)
		s.run(s.t, 2*every)
		_ = s.client.Close()
		s.run(s.t, 5*time.Minute)
	}},
	{"a lease is lost", []string{"RedlockLeasesLost"}, func(s *stage) {
		s.locks(time.Minute)
		if _, err := s.client.Mutex("b").Lock(s.t.Context()); err != nil {
			s.t.Error(err)
		}
		s.masters.Lose("b")
		s.locks(2 * time.Minute)
	}},
	{"somebody holds the lock for half an hour", []string{"RedlockNobodyGetsTheLock"}, func(s *stage) {
		s.masters.Hold("b")
		ctx, cancel := context.WithTimeout(s.t.Context(), 32*time.Minute)
		defer cancel()
		go func() { _, _ = s.client.Mutex("b").Lock(ctx) }()
		s.run(s.t, 32*time.Minute)
	}},
	{"a leader leads for half an hour, beside a standby", nil, func(s *stage) {
		elections := metrics.New(metrics.Config{Class: func(string) string { return "leader" }})
		client, masters := redlocktest.New(s.t, redlock.WithObserver(elections.Observer()))
		s.Serve("host-2", elections)
		masters.Hold("b")
		ctx, cancel := context.WithTimeout(s.t.Context(), 32*time.Minute)
		defer cancel()
		go func() { _, _ = client.Mutex("b").Lock(ctx) }()
		s.run(s.t, 32*time.Minute)
	}},
	{"two callers want one lock, and each holds it for 2 s", nil, func(s *stage) {
		works := func(ctx context.Context, _ *redlock.Lease) error {
			time.Sleep(2 * time.Second)
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		var callers sync.WaitGroup
		for _, c := range []*redlock.Client{s.client, s.masters.Client(redlock.WithObserver(s.m.Observer()))} {
			callers.Go(func() {
				for ctx.Err() == nil {
					_ = c.Mutex("b").Do(ctx, works)
				}
			})
		}
		s.run(s.t, 25*time.Minute)
		cancel()
		callers.Wait()
	}},
	{"one of two lists of masters is down", []string{"RedlockMasterDown", "RedlockNoQuorum", "RedlockOneMasterFromNoQuorum"}, func(s *stage) {
		other, both := metrics.New(metrics.Config{}), prometheus.NewRegistry()
		prometheus.WrapRegistererWith(prometheus.Labels{"list": "a"}, both).MustRegister(s.m)
		prometheus.WrapRegistererWith(prometheus.Labels{"list": "b"}, both).MustRegister(other)
		s.Serve("host-1", both)
		_, _ = redlocktest.NewN(s.t, 7, redlock.WithObserver(other.Observer()))
		s.run(s.t, time.Minute)
		s.masters.Outage(redlocktest.All)
		s.run(s.t, 8*time.Minute)
	}},
	{"a master's clock jumps for the first time", []string{"RedlockClockJumped"}, func(s *stage) {
		s.observed(1, func(o *event.Observer) { o.Clock(event.Clock{Master: "m1"}) })
	}},
	{"this host's clock jumps for the first time", []string{"RedlockClockJumped"}, func(s *stage) {
		s.observed(1, func(o *event.Observer) { o.Clock(event.Clock{}) })
	}},
	{"a master refuses to vote", []string{"RedlockVotesRefused"}, func(s *stage) {
		s.observed(6, func(o *event.Observer) {
			o.Voted(event.Vote{Master: "m1", Answer: event.VoteRefused, Err: redlock.ErrRefused})
		})
	}},
	{"one vote is refused", nil, func(s *stage) {
		s.observed(1, func(o *event.Observer) {
			o.Voted(event.Vote{Master: "m1", Answer: event.VoteRefused, Err: redlock.ErrRefused})
		})
		s.run(s.t, 10*time.Minute)
	}},
	{"a master's rights are wrong", []string{"RedlockMasterRefuses"}, func(s *stage) {
		s.m.Observer().Master(event.Master{Master: "m1", From: event.MasterVotes, To: event.MasterRefuses})
		s.locks(3 * time.Minute)
	}},
	{"a master never stops recovering", []string{"RedlockMasterRecoversForLong", "RedlockOneMasterFromNoQuorum"}, func(s *stage) {
		s.m.Observer().Master(event.Master{Master: "m1", From: event.MasterVotes, To: event.MasterRecovers})
		s.locks(7 * time.Minute)
	}},
	{"leases are extended late", []string{"RedlockLeasesNearlyLost"}, func(s *stage) {
		s.observed(25, func(o *event.Observer) { o.Extended(event.Extend{Left: 900 * time.Millisecond}) })
	}},
	{"leases are extended in time", nil, func(s *stage) {
		s.observed(25, func(o *event.Observer) { o.Extended(event.Extend{Left: 6 * time.Second}) })
	}},
	{"more is released than a dead master is kept for", []string{"RedlockReleasesDropped"}, func(s *stage) {
		s.locks(time.Minute)
		leases := make([]*redlock.Lease, 18000) // 16384 are kept; the master may miss some of them from the beginning
		for i := range leases {
			var err error
			if leases[i], err = s.client.Mutex(fmt.Sprint("b", i)).TryLock(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
		s.masters.Outage(1)
		for _, l := range leases {
			if err := l.Unlock(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
		s.run(s.t, 2*every)
		s.masters.Heal()
		s.locks(2 * time.Minute)
	}},
	{"waits are long", []string{"RedlockWaitsAreLong"}, func(s *stage) {
		s.observed(25, func(o *event.Observer) {
			o.Acquired(s.t.Context(), event.Acquire{Took: time.Minute, Validity: 9 * time.Second})
		})
	}},
	{"an Observer panics", []string{"RedlockObserverSwitchedOff"}, func(s *stage) {
		_ = s.masters.Client(redlock.WithObserver(s.m.Observer()), redlock.WithObserver(&event.Observer{
			Opened: func(event.Client) { panic("x") },
		}))
		s.run(s.t, 2*time.Minute)
	}},
}

// allRestart has all masters restarted at once, at an eighth of the time between two scrapes. They vote again after 30.6 s.
func allRestart(phase int) scene {
	return scene{fmt.Sprintf("all masters are restarted, phase %d", phase), []string{"RedlockNoQuorum"}, func(s *stage) {
		s.run(s.t, time.Minute)
		scrape := time.Now().Add(every)
		time.Sleep(time.Duration(phase) * every / 8)
		s.masters.Restart(redlocktest.All)
		time.Sleep(time.Until(scrape))
		s.run(s.t, 5*time.Minute)
	}}
}

func allScenes() []scene {
	all := slices.Clone(scenes)
	for phase := range 8 {
		all = append(all, allRestart(phase))
	}
	return all
}

// play records a scene, and returns the recording and the alerts that fire.
func play(t *testing.T, plays func(*stage)) (r *recording, fired []string) {
	t.Helper()
	r = newRecording()
	synctest.Test(t, func(t *testing.T) {
		r.first = time.Now()
		s := &stage{t: t, recording: r, m: metrics.New(metrics.Config{})}
		s.Serve("host-1", s.m)
		s.client, s.masters = redlocktest.New(t, redlock.WithObserver(s.m.Observer()))
		plays(s)
		fired = s.fired(t)
	})
	return r, fired
}

func TestAlerts_fireInTheirScenesAndInNoOther(t *testing.T) {
	shown := make(map[string]bool)
	for _, scene := range allScenes() {
		t.Run(scene.name, func(t *testing.T) {
			if _, got := play(t, scene.plays); !slices.Equal(got, scene.fire) {
				t.Errorf("%q fire, want %q", got, scene.fire)
			}
		})
		for _, alert := range scene.fire {
			shown[alert] = true
		}
	}
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, _ := rulefmt.Parse(text, false)
	for _, r := range groups.Groups[0].Rules {
		if !shown[r.Alert] {
			t.Errorf("no scene has %s fire", r.Alert)
		}
	}
}
