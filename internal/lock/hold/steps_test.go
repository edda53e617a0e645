// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

// script is a node that notes what it is sent, and answers when the test says so.
type script struct {
	protocol.Node
	mu   sync.Mutex
	sent []asked
	told func(kind protocol.Kind) // of each op before it is noted; nil: nobody
	data string                   // its voting state
}

func (s *script) VotingState() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// replace has the node have other data.
func (s *script) replace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data += "'"
}

// asked is an op, and what it asked: the op is used again once it was answered.
type asked struct {
	protocol.Request
	op *protocol.Op
}

func (s *script) Submit(op *protocol.Op) bool {
	if s.told != nil {
		s.told(op.Kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, asked{*op.Request, op})
	return true
}

// all is what the node was sent.
func (s *script) all() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// stage is one hold on three scripted masters. Each test of a step has one, in a bubble of synctest.
type stage struct {
	t     *testing.T
	nodes [3]*script
	r     *Renewer
	h     *Hold
	share Share

	giveUp context.CancelFunc // of who takes the lock over
}

const stageTTL, stageTimeout = 3 * time.Second, 500 * time.Millisecond

// threeMasters are masters without nodes, which wait for an answer for so long.
func threeMasters(timeout time.Duration) *quorum.Masters {
	return &quorum.Masters{Need: 2, All: 0b111, Clock: clock.Monotonic(), Drift: clock.DefaultDrift(),
		Timeout: func() time.Duration { return timeout }, Trusted: func() time.Duration { return -1 << 62 }}
}

// grantedVote is a master's yes to acquire.
var grantedVote = protocol.Reply{Outcome: protocol.Granted, Token: 5}

// acquire asks all masters for a lock.
func acquire(m *quorum.Masters) *quorum.Call {
	call := m.Call(m.Need, &protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "me", TTL: stageTTL})
	call.Send(m.All)
	return call
}

// keep makes h the hold of a call that was granted now, and gives it to the renewer.
func keep(r *Renewer, h *Hold, call *quorum.Call, terms Terms, share *Share) bool {
	now := r.Masters.Clock.Elapsed()
	h.Init(r, &attempt.Won{Lock: protocol.NewLock("x", protocol.Plain), Holder: "me", Token: grantedVote.Token, Start: now, From: now,
		Until: now + r.Masters.Drift.Validity(terms.TTL, 0), Granted: now, Call: call}, terms, share)
	return r.Add(h, now+terms.Every)
}

// newStage makes a hold that is renewed, or not if it is fixed.
func newStage(t *testing.T, fixed bool) *stage { return newStageWith(t, fixed, grantedVote) }

// newStageWith is newStage with the answer of the third master to the acquire.
func newStageWith(t *testing.T, fixed bool, third protocol.Reply) *stage {
	s := &stage{t: t}
	m := threeMasters(stageTimeout)
	for i := range s.nodes {
		s.nodes[i] = &script{}
		m.Nodes = append(m.Nodes, s.nodes[i])
	}
	s.r = &Renewer{Masters: m, Propose: func() int64 { return 9 }, Events: Events{
		Released: func(*protocol.Lock) {},
		Why:      func() string { return "" },
		GaveUp:   func(ctx context.Context, _ *protocol.Lock) error { return ctx.Err() },
	}}
	s.r.Start()
	call := acquire(m)
	s.answer(protocol.Acquire, grantedVote, 0, 1)
	s.answer(protocol.Acquire, third, 2)
	s.h = new(Hold)
	if !keep(s.r, s.h, call, Terms{TTL: stageTTL, Every: stageTTL / 3, Fixed: fixed}, &s.share) {
		t.Fatal("the renewer takes no hold")
	}
	return s
}

// answer answers the last op of the kind on the masters named.
func (s *stage) answer(kind protocol.Kind, reply protocol.Reply, masters ...int) {
	s.t.Helper()
	for _, i := range masters {
		says(s.last(i, kind).op, reply)
	}
}

// says answers op.
func says(op *protocol.Op, reply protocol.Reply) {
	op.Reply = reply
	op.To.Receive(op)
}

// extendedButFor has the hold extended by all masters but i, whose answer is not there, and returns the op that waits for it.
func (s *stage) extendedButFor(i int) (late *protocol.Op) {
	s.extending()
	for other := range s.nodes {
		if other != i {
			s.answer(protocol.Extend, intact, other)
		}
	}
	return s.last(i, protocol.Extend).op
}

// last is the last op of the kind that master i was sent.
func (s *stage) last(i int, kind protocol.Kind) *asked {
	s.t.Helper()
	for _, a := range slices.Backward(s.nodes[i].all()) {
		if a.Kind == kind {
			return &a
		}
	}
	s.t.Fatalf("master %d was sent no %v", i, kind)
	return nil
}

// count is how many ops of the kind the masters were sent.
func (s *stage) count(kind protocol.Kind) (n int) {
	for _, node := range s.nodes {
		for _, a := range node.all() {
			if a.Kind == kind {
				n++
			}
		}
	}
	return n
}

func (s *stage) want(kind protocol.Kind, n int) {
	s.t.Helper()
	if got := s.count(kind); got != n {
		s.t.Errorf("the masters were sent %d of kind %v, want %d", got, kind, n)
	}
}

func (s *stage) wantEnded(cause error) {
	s.t.Helper()
	if err := s.share.Err(); !errors.Is(err, cause) {
		s.t.Errorf("the lease ended because of %v, want %v", err, cause)
	}
}

// state is the state that the table of the package comment names.
func (s *stage) state() string {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	switch {
	case s.h.ended != nil:
		return "ended"
	case s.h.extends.inFlight():
		return "extending"
	}
	return "held"
}

var intact, gone = protocol.Reply{Outcome: protocol.Granted, Intact: []bool{true}}, protocol.Reply{Outcome: protocol.Granted, Intact: []bool{false}}

// extending has the hold extended by a call that waits.
func (s *stage) extending() {
	go func() { _ = s.h.Extend(s.t.Context()) }()
	synctest.Wait()
}

// release leaves and releases, and answers with a yes.
func (s *stage) release() {
	was, last := s.share.Leave(s.r.Masters.Clock.Elapsed())
	if !last {
		return
	}
	go func() { _ = s.h.Release(context.Background(), was, s.r.Masters.Clock.Elapsed()) }()
	synctest.Wait()
	if s.count(protocol.Release) > 0 {
		s.answer(protocol.Release, protocol.Reply{Outcome: protocol.Granted}, 0, 1, 2)
	}
	synctest.Wait()
}

// steps are the rows of the table in the package comment: what brings the hold into the state, and the step.
var steps = map[string]func(s *stage){
	"held/Extend, the renewer": func(s *stage) {
		time.Sleep(stageTTL / 3)
		synctest.Wait()
		s.want(protocol.Extend, 3)
	},
	"held/its time is over": func(s *stage) {
		time.Sleep(stageTTL)
		synctest.Wait()
		s.want(protocol.Extend, 0)
		s.wantEnded(errs.ErrLost)
	},
	"held/Release": func(s *stage) {
		s.release()
		s.want(protocol.Release, 3)
		if r := s.last(0, protocol.Release); r.Hand == 0 {
			s.t.Error("the release hands the lock to nobody")
		}
		s.wantEnded(errs.ErrReleased)
	},
	"held/GiveAway": func(s *stage) {
		votes, err := s.share.GiveAway()
		if err != nil || votes != 0b111 {
			s.t.Errorf("given away on %b: %v", votes, err)
		}
		s.want(protocol.Release, 0)
		s.wantEnded(errs.ErrReleased)
	},
	"held/Surrender, Close": func(s *stage) {
		s.r.Close()
		s.wantEnded(errs.ErrClosed)
	},
	"extending/a quorum confirmed": func(s *stage) {
		time.Sleep(time.Second / 2)
		s.extending()
		before := s.h.Until()
		s.answer(protocol.Extend, intact, 0, 1)
		s.answer(protocol.Extend, gone, 2)
		if until := s.h.Until(); until != before+time.Second/2 {
			s.t.Errorf("valid until %v, before %v", until, before)
		}
		s.want(protocol.TopUp, 1)
		s.last(2, protocol.TopUp)
	},
	"extending/too few answered": func(s *stage) {
		s.extending()
		before := s.h.Until()
		s.answer(protocol.Extend, intact, 0)
		time.Sleep(stageTimeout)
		synctest.Wait()
		if until := s.h.Until(); until != before {
			s.t.Errorf("valid until %v, before %v", until, before)
		}
		if s.share.Err() != nil || s.state() != "held" {
			s.t.Errorf("%s: %v", s.state(), s.share.Err())
		}
		time.Sleep(stageTTL / 20)
		synctest.Wait()
		s.want(protocol.Extend, 6)
		s.answer(protocol.Extend, intact, 0, 1, 2)
	},
	"extending/too few votes are left": func(s *stage) {
		s.extending()
		s.answer(protocol.Extend, gone, 0, 1)
		s.wantEnded(errs.ErrLost)
	},
	"extending/its time is over": func(s *stage) {
		time.Sleep(s.h.lastCall() - s.h.Granted - 10*time.Millisecond)
		s.extending()
		time.Sleep(20 * time.Millisecond)
		s.wantEnded(errs.ErrLost)
		s.answer(protocol.Extend, intact, 0, 1, 2)
		s.wantEnded(errs.ErrLost)
	},
	"extending/Release, GiveAway": func(s *stage) {
		s.extending()
		s.release()
		s.answer(protocol.Extend, gone, 0, 1, 2)
		s.want(protocol.Release, 3)
		s.want(protocol.TopUp, 0)
		s.wantEnded(errs.ErrReleased)
	},
	"ended/a top-up": func(s *stage) {
		s.release()
		s.h.topUp(0)
		s.want(protocol.TopUp, 0)
	},
	"ended/Release": func(s *stage) {
		s.extending()
		s.answer(protocol.Extend, gone, 0, 1)
		s.answer(protocol.Extend, intact, 2)
		s.release()
		s.want(protocol.Release, 3)
		for i := range s.nodes {
			if r := s.last(i, protocol.Release); r.Hand != 0 {
				s.t.Errorf("master %d hands on what was lost", i)
			}
		}
		s.wantEnded(errs.ErrLost)
	},
}

// Each row of the table in the package comment is a step that the code makes, and leads where the row says.
// Who is shut down closes its connections when no hold is left, so a hold leaves when its releases are on their way, and not before: else the lock stays
// for its TTL.
func TestRelease_drain_emptyWhenItIsSent(t *testing.T) {
	for name, end := range map[string]func(s *stage){
		"Release": func(s *stage) {
			was, _ := s.share.Leave(s.r.Masters.Clock.Elapsed())
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.h.Release(ctx, was, s.r.Masters.Clock.Elapsed())
		},
		"GiveAway": func(s *stage) {
			if _, err := s.share.GiveAway(); err != nil {
				s.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, true)
				if name == "GiveAway" { // a vote that was put back stays behind, and is released
					s.h.votes.toppedUp = 0b100
				}
				empty := s.r.Drain()
				sent := 0
				for _, n := range s.nodes {
					n.told = func(kind protocol.Kind) {
						if kind != protocol.Release {
							return
						}
						sent++
						select {
						case <-empty:
							t.Error("nothing is left, and a release is not on its way yet")
						default:
						}
					}
				}
				end(s)
				select {
				case <-empty:
				default:
					t.Error("a hold that is over is still there")
				}
				if sent == 0 {
					t.Error("no release was sent")
				}
			})
		})
	}
}

// Who takes a lock over hands it on, also from a master that put the vote back, or gave one that was not believed: nobody knows that any more. So such
// a lock is not offered. A master that has not answered stands in nobody's way: its vote is of no use to the next one either.
func TestRelease_doubtedVote_isNotOffered(t *testing.T) {
	for name, tc := range map[string]struct {
		third    protocol.Reply
		toppedUp uint64
		offered  bool
	}{
		"all votes":        {third: grantedVote, offered: true},
		"held for another": {third: protocol.Reply{Outcome: protocol.Held}, offered: true},
		"a vote put back":  {third: grantedVote, toppedUp: 0b100},
		"a vote in doubt":  {third: protocol.Reply{Outcome: protocol.Unknown, Err: protocol.ErrClock}},
		"refused":          {third: protocol.Reply{Outcome: protocol.Refused}, offered: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStageWith(t, true, tc.third)
				offered := false
				s.r.Events.Offer = func(attempt.Offer) *attempt.Offer {
					offered = true
					return nil
				}
				s.h.votes.toppedUp = tc.toppedUp
				was, _ := s.share.Leave(s.r.Masters.Clock.Elapsed())
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // nobody answers
				_ = s.h.Release(ctx, was, s.r.Masters.Clock.Elapsed())
				if offered != tc.offered {
					t.Errorf("the lock is offered: %t", offered)
				}
			})
		})
	}
}

func TestHold_steps_asTheTable(t *testing.T) {
	rows := tableOf(t, "hold.go", 4)
	if len(rows) != len(steps) {
		t.Errorf("the table has %d rows, the test %d", len(rows), len(steps))
	}
	for _, row := range rows {
		name, next := row[0]+"/"+row[1], row[3]
		step := steps[name]
		if step == nil {
			t.Errorf("no test of %q", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, name == "held/its time is over")
				step(s)
				if got := s.state(); got != next {
					t.Errorf("the hold is %s, and the table says %s", got, next)
				}
				s.r.Close()
				time.Sleep(2 * time.Minute) // the timers of batches
			})
		})
	}
}

// tableOf reads the rows of the table in the package comment of file.
func tableOf(t *testing.T, file string, columns int) (rows [][]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(parsed.Doc.Text()) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != columns {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("%s has no table of %d columns", file, columns)
	}
	return rows[2:]
}
