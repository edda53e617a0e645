// SPDX-License-Identifier: Apache-2.0

package masters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/masters/driver"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock/event"
)

// maxTTL is that of the lists here. A master that lost its record waits a little longer.
const maxTTL = time.Second

// kept is a keeper over masters in memory, and what it says. There is no client of the lock.
type kept struct {
	*masters.Keeper
	t       *testing.T
	masters []*nodetest.Master
	cfg     masters.Config

	mu     sync.Mutex
	events []string
	again  []int // the masters that callers were to ask again
}

var errForeign = errors.New("another list")

func keep(t *testing.T, change func(cfg *masters.Config)) *kept {
	t.Helper()
	return keepOf(t, 3, change)
}

// keepOf is keep with n masters.
func keepOf(t *testing.T, n int, change func(cfg *masters.Config)) *kept {
	t.Helper()
	k := &kept{t: t}
	clk := clock.Monotonic()
	settings := masters.Settings{Clock: clk, Drift: clock.DefaultDrift(), MaxTTL: maxTTL}
	var nodes []node.Node
	for i := range n {
		k.masters = append(k.masters, nodetest.NewMaster(fmt.Sprintf("m%d", i)))
		nodes = append(nodes, k.masters[i].Node(node.Config{Clock: clk}))
	}
	_, terms, err := settings.Terms(nodes)
	if err != nil {
		t.Fatal(err)
	}
	timeout := func() time.Duration { return protocol.DefaultNodeTimeout }
	k.cfg = masters.Config{
		Nodes: nodes, Need: n/2 + 1, Terms: terms, Clock: clk, Rand: counted, Timeout: timeout,
		Jitter: func(time.Duration) time.Duration { return 0 },
		Trip:   func() time.Duration { return 0 }, Who: "test",
		EpochError: func(theirs, _ string, _ bool) error { return fmt.Errorf("%w: %s", errForeign, theirs) },
		LookAgain: func(i int) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.again = append(k.again, i)
		},
		OurClock:  func(time.Duration) { k.say("our clock") },
		Active:    func() bool { return true },
		OnOpening: func(_ context.Context, e event.Opening) { k.say("opening %d of %d", e.Answered, e.Quorum) },
		OnMaster:  func(e event.Master) { k.say("%s %v", e.Master, e.To) },
		OnEpoch:   func(e event.Epoch) { k.say("epoch %d", e.Number) },
		OnClock:   func(e event.Clock) { k.say("clock of %q", e.Master) },
	}
	if change != nil {
		change(&k.cfg)
	}
	k.Keeper = masters.NewKeeper(k.cfg)
	for i, n := range k.cfg.Nodes {
		n.Bind(protocol.Binding{
			CheckRecordState: true, Drift: clock.DefaultDrift(),
			Admit: func(id protocol.Identity) error { return k.Admit(i, id) },
			Up:    func() { k.Up(i) }, Back: func() { k.Back(i) }, Down: func(err error) { k.Board.Down(i, err) },
			Writes: func(err error) { k.Writes(i, err) }, Trouble: func(err error) { k.Trouble(i, err) },
			Message: func(string, string) {}, Subscribed: func(string) {},
		})
	}
	t.Cleanup(func() {
		k.Close()
		masters.CloseAll(nodes)
	})
	return k
}

func (k *kept) say(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, fmt.Sprintf(format, args...))
}

// heard returns what was said since the last call.
func (k *kept) heard() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	said := strings.Join(k.events, ", ")
	k.events = nil
	return said
}

// begin lets the masters vote, as an operator's init does.
func (k *kept) begin() {
	k.t.Helper()
	var old []bool
	for range k.cfg.Nodes {
		old = append(old, true)
	}
	d := driver.New(driver.Config{Goal: membership.Init, Terms: k.cfg.Terms, Nodes: k.cfg.Nodes, Old: old, New: make([]bool, len(old)), Clock: k.cfg.Clock,
		Rand: counted, Timeout: k.cfg.Timeout, Who: "test", NeverLocked: true})
	masters.Ready(k.t.Context(), k.cfg.Nodes)
	err := driver.Run(k.t.Context(), d, func(out *driver.Outcome) (time.Duration, bool, error) {
		if out.Action.Kind == membership.Refuse {
			return 0, true, errors.New(out.String())
		}
		return masters.Again, out.Action.Kind == membership.Done, nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kept) open() {
	k.t.Helper()
	k.begin()
	if err := k.Open(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	synctest.Wait()
	if err := k.Board.Ready(); err != nil || k.Recovering() != 0 {
		k.t.Fatalf("open: %v, %d recover", err, k.Recovering())
	}
}

// A master whose clock jumped is quarantined, although a look quarantines one of two such masters, and also where the first attempt is lost.
func TestKeeper_clocksJump_eachIsQuarantined(t *testing.T) {
	for name, tc := range map[string]struct {
		jump int
		lost int64 // writes
	}{"two": {2, 0}, "one, and the first attempt is lost": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keepOf(t, 5, nil)
				k.open()
				var writes atomic.Int64
				for i := range tc.jump {
					k.cfg.Nodes[i].(*nodetest.Node).SetFault(func(cmd nodetest.Command) nodetest.Fault {
						if cmd.Name != "record" || writes.Add(1) > tc.lost {
							return nodetest.Fault{}
						}
						return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}
					})
				}
				for i := range tc.jump {
					k.Trouble(i, node.ErrClock)
				}
				time.Sleep(2 * time.Second)
				for i := range tc.jump {
					_ = k.masters[i].Do(func(db *nodetest.DB) {
						r, err := membership.ParseRecord(db.HGetAll(protocol.RecordKey))
						if rs := r.State; err != nil || rs.Phase != membership.Quarantined || !rs.Whole {
							t.Errorf("master %d: %v, %v; want it quarantined and whole", i, rs, err)
						}
					})
				}
			})
		})
	}
}

// While a clock moves again and again, news do not make the keeper look: it looks within a second. When that is over, and the client is idle,
// it looks at once: its next look may be far away.
func TestKeeper_clockWasUnsteady_newsMakeAnIdleClientLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepOf(t, 5, func(cfg *masters.Config) {
			settings := masters.Settings{Clock: cfg.Clock, Drift: clock.DefaultDrift(), MaxTTL: time.Minute}
			_, terms, err := settings.Terms(cfg.Nodes)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Terms, cfg.Active = terms, func() bool { return false }
		})
		k.open()
		k.Trouble(0, node.ErrClock)
		time.Sleep(5 * time.Second) // it is looked at again and again for a second, is quarantined, and waits
		if said := k.heard(); !strings.Contains(said, "m0 recovers") {
			t.Errorf("of a clock that jumped it said %q", said)
		}
		k.masters[1].Flush()
		k.Trouble(1, nil)
		time.Sleep(100 * time.Millisecond)
		if said := k.heard(); !strings.Contains(said, "m1 recovers") {
			t.Errorf("of a flush that it was told of it said %q", said)
		}
	})
}

// A keeper needs no client of the lock: it opens, sees a master lose its record, tells why it may not vote, lets it vote when its wait is over,
// and has the callers that wait ask it again.
func TestKeeper_masterIsFlushed_votesAgainAfterItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, nil)
		k.open()
		if said := k.heard(); !strings.Contains(said, "epoch ") || strings.Count(said, "votes") != 3 {
			t.Errorf("at the opening it said %s", said)
		}
		k.again = nil
		k.masters[1].Flush()
		time.Sleep(masters.ActiveLook + 200*time.Millisecond)
		if said := k.heard(); said != "m1 recovers" || k.Recovering() != 1 || k.Board.Ready() != nil {
			t.Errorf("after a flush it said %q, %d recover, %v", said, k.Recovering(), k.Board.Ready())
		}
		err := k.Explain(1, node.ErrNotEntered)
		var why *masters.MayNotVote
		if after, known := time.Duration(0), false; !errors.As(err, &why) || !errors.Is(err, errs.ErrRecovering) {
			t.Errorf("it says of the master: %v", err)
		} else if after, known = why.After(); !known || after <= 0 || after > k.cfg.Terms.Wait() || why.Final {
			t.Errorf("the wait is %v, %t, for good: %t", after, known, why.Final)
		}
		if errors.Is(why.Minor(), errs.ErrRecovering) {
			t.Error("nobody waits for it, and its error says that callers do")
		}
		time.Sleep(k.cfg.Terms.Wait())
		if said := k.heard(); said != "m1 votes" || k.Recovering() != 0 || fmt.Sprint(k.again) != "[1]" {
			t.Errorf("after the wait it said %q, %d recover, callers asked %v again", said, k.Recovering(), k.again)
		}
	})
}

// A name may lead to another server, and back. Who comes back did not give the votes that the other one gave in its place, and its record is as it
// was: it waits, once.
func TestKeeper_nameLeadsAwayAndBack_serverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, nil)
		k.open()
		m, wait := k.masters[1], k.cfg.Terms.Wait()
		lead := func(to *nodetest.Data, id protocol.Identity) {
			m.Crash()
			m.Promote(to)
			m.Restart()
			if id.RunID != "" {
				m.SetIdentity(id)
			}
		}
		data, id := m.Snapshot(), m.Identity()
		votes := func(after time.Duration) bool {
			k.heard()
			time.Sleep(after)
			return k.Recovering() == 0
		}
		lead(nodetest.NewMaster("another").Snapshot(), protocol.Identity{})
		if votes(wait/2) || !votes(wait) {
			t.Fatal("the other server does not vote after its wait")
		}
		lead(data, id)
		if votes(wait/2) || !votes(wait) {
			t.Error("who came back does not vote after a wait")
		}
		data = m.Snapshot()
		lead(data, id)
		if !votes(wait / 2) {
			t.Error("it lost a connection, and waits again")
		}
	})
}

// A process that has seen no quorum for long claims no master. It says that it waits for servers that came back, and believes them when the votes
// that were given in their place are over.
func TestKeeper_namesLeadAwayAndBack_nobodyClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, nil)
		k.open()
		wait := k.cfg.Terms.Wait()
		data, ids := make([]*nodetest.Data, 3), make([]protocol.Identity, 3)
		for i, m := range k.masters {
			data[i], ids[i] = m.Snapshot(), m.Identity()
		}
		for _, m := range k.masters { // one after the other, so that the others know
			m.Crash()
			m.Promote(nodetest.NewMaster("another").Snapshot())
			m.Restart()
			time.Sleep(2 * wait)
		}
		if k.Recovering() != 0 || k.Board.Ready() != nil {
			t.Fatalf("the others do not vote: %v", k.Board.Ready())
		}
		for _, m := range k.masters {
			m.Crash()
		}
		time.Sleep(2 * wait)
		for i, m := range k.masters {
			m.Promote(data[i])
			m.Restart()
			m.SetIdentity(ids[i])
		}
		time.Sleep(wait / 2)
		if err := k.Board.Ready(); !errors.Is(err, errs.ErrRecovering) {
			t.Errorf("as they are back: %v", err)
		}
		time.Sleep(wait)
		if err := k.Board.Ready(); err != nil {
			t.Errorf("after a wait: %v", err)
		}
		time.Sleep(wait) // where a quorum is believed, who is not yet is claimed
		if n := k.Recovering(); n != 0 {
			t.Errorf("after another one %d recover", n)
		}
	})
}

// What is said where nobody listens costs nothing, and nothing else changes.
func TestKeeper_nobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, func(cfg *masters.Config) { cfg.OnOpening, cfg.OnMaster, cfg.OnEpoch, cfg.OnClock = nil, nil, nil, nil })
		k.open()
		k.masters[0].Flush()
		k.masters[2].Crash()
		time.Sleep(2 * masters.ActiveLook)
		if err := k.Board.Ready(); !errors.Is(err, errs.ErrRecovering) || k.Board.Disconnected() != 1 {
			t.Errorf("one is flushed, and one is down: %v, %d down", err, k.Board.Disconnected())
		}
		if said := k.heard(); said != "" {
			t.Errorf("it said %s", said)
		}
	})
}

// Without records there is nothing to look at: a master votes as soon as it is connected, and callers ask it again at once.
func TestKeeper_noRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, func(cfg *masters.Config) { cfg.Terms = nil })
		if err := k.Open(t.Context()); err != nil || k.Board.Ready() != nil || len(k.again) != 3 {
			t.Errorf("open: %v, %v, callers asked %v again", err, k.Board.Ready(), k.again)
		}
		if err := k.Explain(0, node.ErrNotEntered); err != node.ErrNotEntered {
			t.Errorf("it explains %v", err)
		}
	})
}

// Open returns at once what waiting cannot cure, and what was missing when its context ends.
func TestKeeper_open_errors(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(k *kept)
		want    []error
		says    string
	}{
		"new masters":     {func(*kept) {}, []error{errs.ErrNeedsInit, errs.ErrRefused, errs.ErrUnavailable}, "redlock init"},
		"too few are up":  {func(k *kept) { k.begin(); k.masters[0].Crash(); k.masters[1].Crash() }, []error{errs.ErrUnreachable, context.DeadlineExceeded}, "1 of 3 masters"},
		"two are one":     {func(k *kept) { k.masters[1].SetIdentity(k.masters[0].Identity()) }, []error{errs.ErrConfig, protocol.ErrSame}, "name it once"},
		"two are replica": {func(k *kept) { replica(k.masters[0]); replica(k.masters[1]) }, []error{errs.ErrConfig, node.ErrReplica}, "2 of 3 masters cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keep(t, nil)
				tc.happens(k)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := k.Open(ctx)
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("%v is not: %v", err, want)
					}
				}
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v does not say %q", err, tc.says)
				}
			})
		})
	}
}

func replica(m *nodetest.Master) {
	id := m.Identity()
	id.Role = "slave"
	m.SetIdentity(id)
}

// An Observer that is slow hears one change of each master, from what it heard last to what is so now, and none where both are the same.
func TestBoard_slowObserver_hearsTheLastChange(t *testing.T) {
	for _, stays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slow := make(chan struct{})
			k := keep(t, func(cfg *masters.Config) {
				say := cfg.OnMaster
				cfg.OnMaster = func(e event.Master) {
					say(e)
					if e.Master == "m0" {
						<-slow
					}
				}
			})
			close(slow)
			k.open()
			slow = make(chan struct{})
			k.heard()
			k.masters[0].Crash()
			time.Sleep(time.Second) // the Observer hears of m0, and does not return
			way := k.cfg.Nodes[2].(*nodetest.Node)
			cut := func() {
				way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Cut: true} })
				way.Cut()
				time.Sleep(time.Second)
			}
			for range 3 {
				cut()
				way.SetFault(nil)
				time.Sleep(2 * time.Second)
			}
			want := "m0 down"
			if stays {
				cut()
				want += ", m2 down"
			}
			close(slow)
			synctest.Wait()
			if said := k.heard(); said != want {
				t.Errorf("it heard %s, want %s", said, want)
			}
		})
	}
}

// counted is a number that no call before it returned, which is all that these tests need of chance.
func counted() uint64 { return numbers.Add(1) }

var numbers atomic.Uint64
