// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// redisCandidate is a candidate on real masters.
type redisCandidate struct {
	*election.Election
	terms chan *election.Term
	ended chan error
	end   func() error // ends Run, and returns what it returned
}

func campaign(t testing.TB, c *redlock.Client, value string, ttl time.Duration) *redisCandidate {
	t.Helper()
	r := &redisCandidate{
		Election: election.New(c, "x", election.WithValue(value), election.WithLock(redlock.WithTTL(ttl))),
		terms:    make(chan *election.Term, 10), ended: make(chan error, 10),
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan error, 1)
	go func() {
		out <- r.Run(ctx, func(ctx context.Context, term *election.Term) error {
			r.terms <- term
			<-ctx.Done()
			r.ended <- context.Cause(ctx)
			return nil
		})
	}()
	var err error
	done := false
	r.end = func() error {
		if !done {
			done = true
			cancel()
			err = <-out
		}
		return err
	}
	t.Cleanup(func() { _ = r.end() })
	return r
}

// follow sends what an observer on c is shown.
func follow(t testing.TB, c *redlock.Client) <-chan seen {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan seen, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for leader, err := range election.New(c, "x").Observe(ctx) {
			ch <- seen{leader, err, time.Now()}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return ch
}

const patient = 20 * time.Second

// On real masters: the leader's connections are killed, and its term goes on. Then its host is cut off:
// it is told, another leads, and observers see that. Nothing is left in the end.
func TestRun_realMasters_connectionsKilledAndCut(t *testing.T) {
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) { // of a TTL of 1 s
		ms := quorumtest.Start(t, 3)
		way := ms.Path()
		a := campaign(t, way.Open(), "a", time.Second)
		first := within(t, patient, "a leads", a.terms)
		saw := follow(t, ms.Open())
		one := within(t, patient, "a is seen", saw)
		if one.err != nil || one.leader.Value != "a" || one.leader.Token != first.Token() {
			t.Fatalf("%+v", one)
		}
		b := campaign(t, ms.Open(), "b", 3*time.Second) // what it announces outlives a stall of the machine
		ms.Waits("x", 1)

		for _, d := range ms.Direct { // of everybody but this one
			noErr(t, d.Do(t.Context(), "client", "kill", "type", "normal").Err())
			noErr(t, d.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		}
		quiet(t, 2*time.Second, "the term ended", a.ended)
		leader, err := b.Leader(t.Context())
		noErr(t, err)
		if leader.Token != first.Token() {
			t.Errorf("%+v", leader)
		}

		way.Vanish()
		wantErr(t, within(t, patient, "a is told", a.ended), redlock.ErrLost)
		second := within(t, patient, "b leads", b.terms)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		for {
			s := within(t, patient, "b is seen", saw) // maybe ErrNoLeader between, or b in a later term
			if s.err == nil && s.leader.Token >= second.Token() && s.leader.Value == "b" {
				break
			}
			if s.err != nil && !errors.Is(s.err, election.ErrNoLeader) && !errors.Is(s.err, redlock.ErrUnreachable) {
				t.Fatal(s.err)
			}
		}
		// A quorum is enough to lead. What a had announced on the other master ends by its TTL, or when b announces itself there.
		quorumtest.Soon(t, "every master has what b announced", func() bool {
			for _, d := range ms.Direct {
				if text, err := d.Get(t.Context(), "redlock:leader:{x}").Result(); err != nil || !strings.HasSuffix(text, "\x00b") {
					return false
				}
			}
			return true
		})
		noErr(t, b.Resign(t.Context()))
		wantErr(t, b.end(), context.Canceled)
		quorumtest.GivenBack(t, ms.Direct, "redlock:leader:*")
	})
}
