// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// FailoverConfig describes the failover experiment. The zero value of a field means its default.
type FailoverConfig struct {
	Driver cluster.Driver
	Image  string    // of the docker driver; see cluster.Config
	Replay string    // the command that runs it again, for the record
	Out    io.Writer // gets a few lines on the surroundings; nil means nowhere
}

// FailoverResult has the figures of the failover experiment. There are two defences, a quorum and recovery: a master that lost votes does not
// vote before every lease that it may not know of is over. Each is tried with and without the other.
type FailoverResult struct {
	Single           FailoverCount `json:"single"`            // one master with a replica, without recovery
	Quorum           FailoverCount `json:"quorum"`            // five masters, one of them with a replica, with recovery
	SingleRecovering FailoverCount `json:"single_recovering"` // one master with a replica, with recovery
	QuorumForgetful  FailoverCount `json:"quorum_forgetful"`  // five masters, one of them with a replica, without recovery
}

// FailoverCount says how often one lock was granted.
type FailoverCount struct {
	Grants   int `json:"grants"`   // all grants of the lock
	Overlaps int `json:"overlaps"` // the grants during another client's claim
}

// Shown reports whether the locks without recovery had two holders, on one master and on five, and the locks with recovery had not, although
// they were granted again.
func (r *FailoverResult) Shown() bool {
	return r.Single.Overlaps > 0 && r.QuorumForgetful.Overlaps > 0 && r.Again() && r.Held()
}

// Again reports whether each lock was granted to the second client too. One that was not had one holder at a time without a defence.
func (r *FailoverResult) Again() bool {
	return min(r.Single.Grants, r.Quorum.Grants, r.SingleRecovering.Grants, r.QuorumForgetful.Grants) >= 2
}

// Held reports whether the locks with recovery, which are promised to exclude, had one holder at a time.
func (r *FailoverResult) Held() bool {
	return r.Quorum.Overlaps == 0 && r.SingleRecovering.Overlaps == 0
}

// String returns the result as a paragraph of text.
func (r *FailoverResult) String() string {
	return fmt.Sprintf(`A lock was taken, the master that had it died before its replica had heard of it, the replica was promoted, and a second
client asked for the lock. With five masters, the one that died had one of the votes of a bare majority. Grants of the lock, and
how many of them came while the first holder still held it:

                                       grants  to two at once
  one master, without recovery         %6d  %14d
  five masters, without recovery       %6d  %14d
  one master, with recovery            %6d  %14d
  five masters, with recovery          %6d  %14d

Recovery: a promoted master does not vote before every lease that it may not know of is over. A quorum by itself does not help
here, because it counts the promoted master's vote. It has locks granted while a minority of the masters is down.
`, r.Single.Grants, r.Single.Overlaps, r.QuorumForgetful.Grants, r.QuorumForgetful.Overlaps,
		r.SingleRecovering.Grants, r.SingleRecovering.Overlaps, r.Quorum.Grants, r.Quorum.Overlaps)
}

// failoverTTL is the TTL of the locks. failoverWait is how long the second client waits: the first lease is over by then.
const (
	failoverTTL  = 3 * time.Second
	failoverWait = 3 * failoverTTL
)

// Failover runs the same events four times: on a single master with an asynchronous replica, and on five masters, one of which has a replica,
// each without recovery and with it. The history has the four locks: "single", "quorum-forgetful", "single-recovering" and "quorum".
//
// Failover returns an error if it could not make the events happen. A result and an error are both returned if a promise was broken before
// that. It removes everything that it started.
func Failover(ctx context.Context, cfg FailoverConfig) (*FailoverResult, *history.History, []check.Result, error) {
	reaper, err := leftover.Watch()
	if err != nil {
		return nil, nil, nil, err
	}
	defer reaper.Close()
	e := &failover{cfg: cfg}
	for _, run := range []struct {
		lock    string
		masters int
		opts    []redlock.Option
	}{
		{"single", 1, []redlock.Option{redlock.WithNodeCount(1), redlock.WithUnsafeRecoveryOff()}},
		{"quorum-forgetful", 5, []redlock.Option{redlock.WithUnsafeRecoveryOff()}},
		{"single-recovering", 1, []redlock.Option{redlock.WithNodeCount(1)}},
		{"quorum", 5, nil},
	} {
		if err := e.play(ctx, run.lock, run.masters, run.opts...); err != nil {
			return e.brokeOff(err)
		}
	}
	return e.judge()
}

// brokeOff returns err, and what was seen before it if that breaks a promise. Otherwise nothing was shown yet.
func (e *failover) brokeOff(err error) (*FailoverResult, *history.History, []check.Result, error) {
	if e.w == nil {
		return nil, nil, nil, err
	}
	res, h, checks, unread := e.judge()
	if unread != nil || !slices.ContainsFunc(checks, func(r check.Result) bool { return r.Promised && r.Verdict == check.Illegal }) {
		return nil, nil, nil, errors.Join(err, unread)
	}
	return res, h, checks, err
}

func (e *failover) judge() (*FailoverResult, *history.History, []check.Result, error) {
	h, err := history.Read("failover", &e.record)
	if err != nil {
		return nil, nil, nil, err
	}
	checks := []check.Result{check.Whole(safety.Assumptions(), h), check.Whole(safety.Exclusion(), h), check.Whole(safety.Tokens(), h)}
	res := &FailoverResult{Single: count(h, checks, "single"), Quorum: count(h, checks, "quorum"),
		SingleRecovering: count(h, checks, "single-recovering"), QuorumForgetful: count(h, checks, "quorum-forgetful")}
	for i := range checks {
		// Exclusion is not promised without recovery, so only an overlap with recovery breaks a promise.
		checks[i].Promised = checks[i].ID != "exclusion" || !res.Held()
	}
	return res, h, checks, nil
}

func count(h *history.History, checks []check.Result, lock string) (c FailoverCount) {
	for _, op := range h.Ops {
		if op.Kind == history.KindLock && op.Lock == lock && op.Outcome == history.OK {
			c.Grants++
		}
	}
	for _, r := range checks {
		for _, v := range r.Violations {
			if r.ID == "exclusion" && len(v.Ops) > 0 && v.Ops[0].Lock == lock {
				c.Overlaps++
			}
		}
	}
	return c
}

type failover struct {
	cfg    FailoverConfig
	record bytes.Buffer
	w      *history.Writer // nil until begin
}

// begin opens the history, once the driver is known.
func (e *failover) begin(ctx context.Context, c *cluster.Cluster) error {
	if e.w != nil {
		return nil
	}
	masters, err := c.Versions(ctx)
	if err != nil {
		return err
	}
	e.w, err = history.NewWriter(&e.record, history.Header{
		Started: time.Now(), Driver: string(c.Driver()), Masters: 5, TTL: failoverTTL, Replay: e.cfg.Replay,
		Promises: history.Promises{Exclusion: true, Tokens: true}, Versions: versions(masters),
		Idle: []string{"fenced-register", "counters"},
	})
	return err
}

// stage has the masters and two clients. Each client has proxies of its own.
type stage struct {
	cluster *cluster.Cluster
	links   [2][]*faultproxy.Proxy
	clients [2]*redlock.Client
}

func (s *stage) close() error {
	var errs []error
	for i := range s.clients {
		if s.clients[i] != nil {
			errs = append(errs, s.clients[i].Close())
		}
		for _, p := range s.links[i] {
			errs = append(errs, p.Close())
		}
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close())
	}
	return errors.Join(errs...)
}

// play starts a stage and runs the events for one lock.
func (e *failover) play(ctx context.Context, lock string, masters int, opts ...redlock.Option) (err error) {
	s := &stage{}
	defer func() { err = errors.Join(err, left(s.close())) }()
	if s.cluster, err = cluster.Open(ctx, cluster.Config{Driver: e.cfg.Driver, Image: e.cfg.Image, Masters: masters, Out: e.cfg.Out}); err != nil {
		return err
	}
	if err := e.begin(ctx, s.cluster); err != nil {
		return err
	}
	doomed := s.cluster.Masters()[0]
	replica, err := doomed.Replica(ctx)
	if err != nil {
		return err
	}
	opts = append(opts, redlock.WithTTL(failoverTTL), redlock.WithMaxTTL(failoverTTL), redlock.WithoutRenewal(), redlock.WithFixedMasters())
	for i := range s.clients {
		for _, m := range s.cluster.Masters() {
			p, err := faultproxy.Start(m.Addr())
			if err != nil {
				return err
			}
			s.links[i] = append(s.links[i], p)
		}
		if i == 0 {
			list := admin.List{URLs: urls(s.links[i], s.cluster.Masters()), Options: opts}
			if err := admin.Init(ctx, list, nil, admin.NothingWasEverLocked); err != nil {
				return err
			}
		}
		if s.clients[i], err = redlock.Open(ctx, urls(s.links[i], s.cluster.Masters()), opts...); err != nil {
			return err
		}
	}
	return e.events(ctx, lock, s, doomed, replica)
}

// events runs the events, which are the same for any number of masters.
func (e *failover) events(ctx context.Context, lock string, s *stage, doomed, replica *cluster.Master) error {
	// The first holder reaches a bare majority, and the master that will die is part of it. So every vote counts.
	n := len(s.links[0])
	for _, p := range s.links[0][n/2+1:] {
		p.Set(faultproxy.ToMaster, faultproxy.Fault{Drop: true})
	}
	// The replica falls behind: it is frozen, and its connection is cut, so that not even its kernel receives the write of the lock.
	if err := replica.Pause(ctx); err != nil {
		return err
	}
	if err := cutReplication(ctx, doomed); err != nil {
		return err
	}
	first, second := workload.NewRecorder(e.w, lock+".first"), workload.NewRecorder(e.w, lock+".second")
	held := hold(ctx, first, lock, s.clients[0].Mutex(lock).Lock)
	if held == nil {
		return errors.Join(fmt.Errorf("chaos: failover: the first client could not lock %q", lock), first.Err(), ctx.Err())
	}
	f := history.Fault{Nemesis: "fail-over", Start: history.Now(), Targets: []string{"m1"}, Detail: lock + ": the master dies, its replica is promoted"}
	if err := doomed.Kill(ctx); err != nil {
		return err
	}
	if err := replica.Unpause(ctx); err != nil {
		return err
	}
	promoted, err := doomed.Promote(ctx)
	if err != nil {
		return err
	}
	for _, links := range s.links {
		links[0].Retarget(promoted.Addr())
	}
	f.End = history.Now()
	if err := e.w.Append(f); err != nil {
		return err
	}
	// The second client waits until it is granted the lock. The result of the experiment is when that is.
	wait, cancel := context.WithTimeout(ctx, failoverWait)
	defer cancel()
	var next *redlock.Lease
	for next == nil && wait.Err() == nil && second.Err() == nil {
		next = second.Lock(lock, history.Exclusive, false, func() (*redlock.Lease, error) { return s.clients[1].Mutex(lock).Lock(wait) })
	}
	if next != nil {
		sleep(ctx, failoverTTL/3) // its work
		second.Unlock(lock, next.Holder(), func() error { return next.Unlock(ctx) })
	}
	// The first holder works until its lease ends.
	select {
	case <-held.Context().Done():
	case <-ctx.Done():
	}
	first.Unlock(lock, held.Holder(), func() error { return held.Unlock(ctx) })
	return errors.Join(first.Err(), second.Err(), ctx.Err())
}

// hold gets the lock for the first client, which needs every master that it reaches: one that is silent for a moment, on a busy host, is asked
// again, for as long as the second client waits. It returns nil if that is over, or after any other error.
func hold(ctx context.Context, first *workload.Recorder, lock string, get func(context.Context) (*redlock.Lease, error)) (held *redlock.Lease) {
	wait, cancel := context.WithTimeout(ctx, failoverWait)
	defer cancel()
	err := redlock.ErrUnreachable
	for errors.Is(err, redlock.ErrUnreachable) && wait.Err() == nil && first.Err() == nil {
		held = first.Lock(lock, history.Exclusive, false, func() (l *redlock.Lease, _ error) {
			l, err = get(wait)
			return l, err
		})
	}
	return held
}

// cutReplication makes the master close the connections of its replicas.
func cutReplication(ctx context.Context, m *cluster.Master) error {
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, DisableIdentity: true})
	defer c.Close()
	if err := c.Do(ctx, "client", "kill", "type", "replica").Err(); err != nil {
		return fmt.Errorf("chaos: failover: cut the replication: %w", err)
	}
	return nil
}
