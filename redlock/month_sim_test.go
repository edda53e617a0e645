// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// shift is how long a round of a month lasts. Then all is quiet: what a force has barred ends last, after twice the maximum TTL.
const (
	shift    = time.Hour
	longTTL  = 5 * time.Minute
	longMost = 10 * time.Minute
)

// A fleet lives for long: its clients lock, share, lead, load and run jobs, are deployed anew, killed and forced, while masters die, lose
// their data, and are replaced by lists that grow and shrink. After each round nothing is left on any master but its record, no goroutine and
// no subscription is one too many, and what clients count is what their users got.
//
// The gate has half a day of eight clients. A soak has a month of fifty.
func TestSim_month_nothingGrowsAndTheCountersAreTrue(t *testing.T) {
	needs.Test(t)
	needs.NoRace(t, "a large simulation")
	clients, lasts := 8, 12*time.Hour
	if needs.InSoak(t) {
		clients, lasts = 50, 30*24*time.Hour
	}
	did := make(map[string]int)
	for seed := range replay.Many(t, 0) {
		simulateWith(t, 7, func(t *testing.T, c *cluster) {
			m := &month{t: t, c: c, rng: replay.RNG(seed), did: did, list: []int{0, 1, 2}, meter: metrics.New(metrics.Config{}), ledgers: make(map[string]*ledger)}
			m.run(clients, lasts)
		})
	}
	t.Log(did)
	for _, what := range []string{"lock", "own name", "permit", "several", "every", "load", "handed over", "lead", "read", "observe", "subscribe", "deploy", "kill", "master dies", "master empty", "grow or shrink", "force"} {
		if replay.Listed() && did[what] == 0 {
			t.Errorf("nobody did %q: %v", what, did)
		}
	}
}

// month is one run. mu guards what is below it.
type month struct {
	t     *testing.T
	c     *cluster
	rng   *rand.Rand
	list  []int // the masters of now
	fleet []*resident
	meter *metrics.Metrics
	looks []look
	begun time.Time

	mu      sync.Mutex
	did     map[string]int
	ledgers map[string]*ledger // by lock
	total   tally
}

// resident is a client of the fleet.
type resident struct {
	*redlock.Client
	ways []*nodetest.Node
	book simtest.Balance
	subs *channels
}

// tally is what clients have counted that are closed by now.
type tally struct{ granted, lost, rounds uint64 }

// look is what was there after a round.
type look struct {
	goroutines, channels int
	heap                 uint64
}

// channels are those that a client has subscribed to.
type channels struct {
	mu   sync.Mutex
	all  map[string]bool
	most int // how often one was subscribed to
}

func (s *channels) fault(master string) func(nodetest.Command) nodetest.Fault {
	return func(cmd nodetest.Command) nodetest.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, ch := range cmd.Args {
			switch cmd.Name {
			case "subscribe":
				s.all[master+" "+ch], s.most = true, s.most+1
			case "unsubscribe":
				delete(s.all, master+" "+ch)
			}
		}
		return nodetest.Fault{}
	}
}

func (m *month) options() []redlock.Option {
	return []redlock.Option{redlock.WithMaxTTL(longMost), redlock.WithTTL(longTTL)}
}

// of is the list of these masters, for an operator.
func (m *month) of(masters []int) (l admin.List, done func()) {
	l, done = m.c.list(masters...)
	l.Options = append(l.Options, m.options()...)
	return l, done
}

func (m *month) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.did[what]++
}

// open opens a client on the masters of now.
func (m *month) open() *resident {
	m.t.Helper()
	r := &resident{subs: &channels{all: make(map[string]bool)}}
	l, _ := m.c.list(m.list...)
	for _, n := range l.Nodes {
		way := n.(*nodetest.Node)
		way.SetFault(r.subs.fault(way.Name()))
		r.ways = append(r.ways, way)
	}
	opts := slices.Concat(l.Options, m.options(), []redlock.Option{redlock.WithObserver(r.book.Observer()), redlock.WithObserver(m.meter.Observer())})
	var err error
	r.Client, err = redlock.New(m.t.Context(), l.Nodes, opts...)
	noErr(m.t, err)
	return r
}

func (m *month) run(clients int, lasts time.Duration) {
	m.begun = time.Now()
	l, done := m.of(m.list)
	noErr(m.t, admin.Init(m.t.Context(), l, nil, admin.NothingWasEverLocked))
	done()
	for range clients {
		m.fleet = append(m.fleet, m.open())
	}
	for i := 0; time.Since(m.begun) < lasts; i++ {
		if replay.Over() {
			m.t.Logf("%v of %v", time.Since(m.begun), lasts)
			break
		}
		var work sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for _, r := range m.fleet {
			rng := replay.RNG(m.rng.Uint64())
			work.Go(func() { m.live(ctx, r, rng) })
		}
		m.strike(i)
		time.Sleep(shift / 2)
		cancel()
		work.Wait()
		m.renew()
		time.Sleep(3 * longMost)
		m.look()
	}
	for _, r := range m.fleet {
		m.leave(r, 0)
	}
	m.judge()
}

// strike is what goes wrong in a round, while the fleet works.
func (m *month) strike(round int) {
	time.Sleep(time.Duration(m.rng.Int64N(int64(shift / 6))))
	switch round % 4 {
	case 0, 1:
		master := m.c.masters[m.list[m.rng.IntN(len(m.list))]]
		master.Crash()
		time.Sleep(time.Duration(m.rng.Int64N(int64(longMost))))
		if round%4 == 1 {
			m.note("master empty")
			master.Flush()
		}
		m.note("master dies")
		master.Restart()
	case 2:
		m.note("grow or shrink")
		n := 8 - len(m.list) // 3 and 5 in turn
		next := m.rng.Perm(7)[:n]
		from, doneFrom := m.of(m.list)
		to, doneTo := m.of(next)
		noErr(m.t, admin.Reconfigure(m.t.Context(), from, to, nil))
		doneFrom()
		doneTo()
		m.list = next
	case 3:
		stuck := m.fleet[0].Mutex("y")
		l, err := stuck.Lock(m.t.Context())
		noErr(m.t, err)
		m.held(l)
		for l.Err() == nil {
			m.force(anyOf(m.rng, "x", "y", "s:slot:1", "e", "a"))
			sleepFor(l.Context(), time.Minute)
		}
		wantErr(m.t, l.Err(), redlock.ErrLost)
	}
}

// force has an operator force whoever has the lock.
func (m *month) force(name string) {
	operator := m.fleet[m.rng.IntN(len(m.fleet))]
	in, err := operator.Inspect(m.t.Context(), name)
	if err != nil || len(in.Holders) == 0 || in.Holders[0].Resting {
		return
	}
	m.mu.Lock()
	if l := m.ledgers[name]; l != nil {
		l.mu.Lock()
		for _, s := range l.spans { // the next may have it from now on
			if s.who == in.Holders[0].ID && s.until.After(time.Now()) {
				s.until = time.Now()
			}
		}
		l.mu.Unlock()
	}
	m.mu.Unlock()
	if operator.ForceUnlock(m.t.Context(), name, in.Holders[0].ID) == nil {
		m.note("force")
	}
}

// renew deploys a part of the fleet anew, and all of it after a change of masters.
func (m *month) renew() {
	changed := m.list
	for i, r := range m.fleet {
		if len(r.ways) == len(changed) && m.rng.IntN(3) > 0 {
			continue
		}
		m.leave(r, m.rng.IntN(3))
		m.fleet[i] = m.open()
		m.note("deploy")
	}
}

// leave ends a client: it is shut down, closed or killed.
func (m *month) leave(r *resident, how int) {
	switch how {
	case 0:
		noErr(m.t, r.Shutdown(m.t.Context()))
	case 1:
		noErr(m.t, r.Close())
	default:
		m.note("kill")
		for _, way := range r.ways {
			way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: cmd.Name != "message"}
			})
			way.Cut()
		}
		noErr(m.t, r.Close())
	}
	r.subs.mu.Lock()
	if r.subs.most > 0 {
		m.note("subscribe")
	}
	r.subs.mu.Unlock()
	granted, lost := r.book.Counts()
	stats := r.Stats()
	if err := r.book.Err(); err != nil {
		m.t.Error(err)
	}
	if uint64(granted) != stats.Granted || uint64(lost) != stats.Lost || stats.Held != 0 || stats.Rounds < stats.Granted || stats.Dropped != 0 || stats.Panics != 0 {
		m.t.Errorf("an Observer was told of %d grants, of which %d were lost; %+v", granted, lost, stats)
	}
	m.total.granted += stats.Granted
	m.total.lost += stats.Lost
	m.total.rounds += stats.Rounds
}

// look notes what is there when all is quiet, and wants nothing on the masters but their records.
func (m *month) look() {
	synctest.Wait()
	now := look{goroutines: runtime.NumGoroutine()}
	for _, r := range m.fleet {
		r.subs.mu.Lock()
		now.channels += len(r.subs.all)
		r.subs.mu.Unlock()
		if s := r.Stats(); s.Held != 0 || s.Unacknowledged != 0 || s.Recovering != 0 || s.Down != 0 {
			m.t.Errorf("%v: %+v, and all is quiet", time.Since(m.begun), s)
		}
	}
	for _, master := range m.c.masters {
		if left := slices.DeleteFunc(master.Keys(), func(k string) bool { return k == protocol.RecordKey || strings.HasPrefix(k, "redlock:owner:") }); len(left) > 0 {
			m.t.Errorf("%v: %s has %q", time.Since(m.begun), master.Name(), left)
		}
	}
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	now.heap = heap.HeapAlloc
	m.looks = append(m.looks, now)
}
