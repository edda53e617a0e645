// SPDX-License-Identifier: Apache-2.0

package gocronlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	gocronlock "github.com/redlock-go/redlock/compat/gocron"
	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/redlocktest"
)

// The cases of gocron's TestScheduler_WithDistributed and of gocron-redis-lock's tests are among these.
// Three processes have a scheduler each, with the same job. They share masters in memory.

const (
	every   = 20 * time.Second
	minHold = time.Second
	jobName = "report"
)

// run is one run of the job.
type run struct {
	process    int
	start, end time.Time
}

// fleet is what the processes did.
type fleet struct {
	t       *testing.T
	mu      sync.Mutex
	runs    []run
	skipped []error
	work    func(ctx context.Context, process int)
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

// start starts the scheduler of a process. The test's end shuts it down.
func (f *fleet) start(process int, opt gocron.SchedulerOption, opts ...gocron.JobOption) gocron.Scheduler {
	f.t.Helper()
	s, err := gocron.NewScheduler(opt)
	noErr(f.t, err)
	job := func(ctx context.Context) {
		r := run{process: process, start: time.Now()}
		f.work(ctx, process)
		r.end = time.Now()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.runs = append(f.runs, r)
	}
	skipped := func(_ uuid.UUID, _ string, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.skipped = append(f.skipped, err)
	}
	opts = append([]gocron.JobOption{gocron.WithName(jobName), gocron.WithEventListeners(gocron.AfterLockError(skipped))}, opts...)
	_, err = s.NewJob(gocron.DurationJob(every), gocron.NewTask(job), opts...)
	noErr(f.t, err)
	s.Start()
	f.t.Cleanup(func() { _ = s.Shutdown() }) // before the clients are closed
	return s
}

// taken returns the runs since the last call, and the errors of those that were skipped.
func (f *fleet) taken() (runs []run, skipped []error) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	runs, skipped = f.runs, f.skipped
	f.runs, f.skipped = nil, nil
	return runs, skipped
}

// lasting is work that takes d, or ends when the scheduler is shut down: gocron waits for it in a loop, in
// which a bubble's time stands still.
func lasting(d time.Duration) func(context.Context, int) {
	return func(ctx context.Context, _ int) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// inBubble runs test with three processes' clients.
func inBubble(t *testing.T, test func(t *testing.T, f *fleet, masters *redlocktest.Masters, clients []*redlock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		test(t, &fleet{t: t, work: lasting(100 * time.Millisecond)}, masters, []*redlock.Client{client, masters.Client(), masters.Client()})
	})
}

func locker(c *redlock.Client) gocron.SchedulerOption {
	return gocron.WithDistributedLocker(gocronlock.NewLocker(c, minHold))
}

// Of each run, one process does it, and the others are told why they do not.
func TestLocker_threeSchedulers_eachRunOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet, _ *redlocktest.Masters, clients []*redlock.Client) {
		for i, c := range clients {
			f.start(i, locker(c))
		}
		time.Sleep(5*every + every/2)
		runs, skipped := f.taken()
		if len(runs) != 5 || len(skipped) != 10 {
			t.Errorf("%d runs, %d skipped, want 5 and 10", len(runs), len(skipped))
		}
		for _, err := range skipped {
			wantIs(t, err, redlock.ErrHeld)
		}
	})
}

// A locker for one job only, and a job that has none.
func TestLocker_ofOneJob_theOthersRunEverywhere(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet, _ *redlocktest.Masters, clients []*redlock.Client) {
		var free fleet
		free.t, free.work = t, f.work
		for i, c := range clients {
			f.start(i, gocron.WithStopTimeout(time.Second), gocron.WithDistributedJobLocker(gocronlock.NewLocker(c, minHold)))
			free.start(i, locker(c), gocron.WithDisabledDistributedJobLocker(true))
		}
		time.Sleep(every + every/2)
		if runs, _ := f.taken(); len(runs) != 1 {
			t.Errorf("%d runs with a lock", len(runs))
		}
		if runs, _ := free.taken(); len(runs) != 3 {
			t.Errorf("%d runs without", len(runs))
		}
	})
}

// A job that takes longer than its TTL and its interval does not run twice at once.
func TestLocker_jobLongerThanItsTTL_neverTwiceAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet, _ *redlocktest.Masters, clients []*redlock.Client) {
		f.work = lasting(2*every + every/2)
		for i, c := range clients {
			f.start(i, locker(c))
		}
		time.Sleep(10 * every)
		runs, _ := f.taken()
		if len(runs) != 3 {
			t.Fatalf("%d runs in ten intervals, want 3 of 2.5 intervals", len(runs))
		}
		slices.SortFunc(runs, func(a, b run) int { return a.start.Compare(b.start) })
		for i, r := range runs[1:] {
			if r.start.Before(runs[i].end) {
				t.Errorf("a run at %v, before that of %v ended", r.start, runs[i].start)
			}
		}
	})
}

// The clocks of the processes are apart by longer than the job takes. The minimum hold bridges that.
func TestLocker_clocksApart_minimumHoldBridges(t *testing.T) {
	for _, tc := range []struct {
		hold time.Duration
		want int
	}{{0, 3}, {minHold, 1}} {
		inBubble(t, func(t *testing.T, f *fleet, masters *redlocktest.Masters, clients []*redlock.Client) {
			f.work = lasting(time.Millisecond)
			for i, c := range clients {
				f.start(i, gocron.WithDistributedLocker(gocronlock.NewLocker(c, tc.hold)))
				time.Sleep(200 * time.Millisecond)
			}
			time.Sleep(every)
			if runs, _ := f.taken(); len(runs) != tc.want {
				t.Errorf("minimum hold %v: %d runs, want %d", tc.hold, len(runs), tc.want)
			}
			time.Sleep(minHold)
			noErr(t, masters.Hold(jobName).Unlock(t.Context())) // it is free again
		})
	}
}

// A scheduler that is shut down cancels its jobs' contexts. The lock is given back all the same.
func TestLocker_shutdownWhileAJobRuns_givenBackAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet, masters *redlocktest.Masters, clients []*redlock.Client) {
		f.work = func(ctx context.Context, _ int) { <-ctx.Done() }
		s := f.start(0, gocron.WithDistributedLocker(gocronlock.NewLocker(clients[0], 0)))
		time.Sleep(every + every/2)
		if _, err := clients[1].Mutex(jobName).TryLock(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Fatal(err)
		}
		noErr(t, s.Shutdown())
		synctest.Wait()
		noErr(t, masters.Hold(jobName).Unlock(t.Context()))
	})
}

// The work of a job ends when its lock is lost.
func TestLocker_lockLost_leaseSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet, masters *redlocktest.Masters, clients []*redlock.Client) {
		l := gocronlock.NewLocker(clients[0], 0)
		var cause error
		var token int64
		f.work = func(ctx context.Context, _ int) {
			token = l.Lease(jobName).Token()
			ctx, stop := l.Lease(jobName).Bind(ctx)
			defer stop()
			<-ctx.Done()
			cause = context.Cause(ctx)
		}
		f.start(0, gocron.WithDistributedLocker(l))
		time.Sleep(every + time.Second)
		masters.Lose(jobName)
		time.Sleep(redlock.DefaultTTL / 2)
		if runs, _ := f.taken(); len(runs) != 1 || token < 1 {
			t.Fatalf("%d runs, token %d", len(runs), token)
		}
		wantIs(t, cause, redlock.ErrLost)
		if l.Lease(jobName) != nil {
			t.Error("a lease after the job")
		}
		ctx, _ := l.Lease(jobName).Bind(t.Context())
		if ctx.Err() == nil {
			t.Error("a context that lives without a lease")
		}
	})
}

// One process runs all jobs. When its client is gone, another does, and none at the same time.
func TestElector_threeSchedulers_oneRunsUntilItIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet, _ *redlocktest.Masters, clients []*redlock.Client) {
		var electors []*gocronlock.Elector
		for i, c := range clients {
			e := gocronlock.NewElector(c, "scheduler")
			t.Cleanup(func() { noErr(t, e.Close()) })
			electors = append(electors, e)
			f.start(i, gocron.WithDistributedElector(e))
		}
		var last int64
		leaders := make(map[int]bool)
		time.Sleep(every / 2)
		for range clients {
			f.taken()
			time.Sleep(2 * every)
			runs, _ := f.taken()
			if len(runs) != 2 {
				t.Fatalf("%d runs in two intervals", len(runs))
			}
			leader := runs[0].process
			for _, r := range runs {
				if r.process != leader {
					t.Errorf("processes %d and %d ran the job", leader, r.process)
				}
			}
			if leaders[leader] {
				t.Errorf("process %d leads again", leader)
			}
			leaders[leader] = true
			for i, e := range electors {
				if leads := e.IsLeader(t.Context()) == nil; leads != (i == leader) {
					t.Errorf("process %d leads: %v", i, leads)
				}
			}
			token := electors[leader].Lease().Token()
			if token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = token
			noErr(t, clients[leader].Close()) // it dies: the TTL frees the lock
			wantIs(t, electors[leader].IsLeader(t.Context()), election.ErrNotLeader)
			time.Sleep(every)
		}
		for _, e := range electors {
			wantIs(t, e.IsLeader(t.Context()), election.ErrNotLeader, redlock.ErrClosed)
		}
	})
}

// leads waits until e leads, for at most 100 ms of the bubble's time.
func leads(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	for range 100 {
		if e.IsLeader(t.Context()) == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	noErr(t, e.IsLeader(t.Context()))
}

// Close hands over at once. An outage ends the term before another can lead, and is waited out.
func TestElector_closeAndOutage_oneLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fleet, masters *redlocktest.Masters, clients []*redlock.Client) {
		first := gocronlock.NewElector(clients[0], "scheduler")
		leads(t, first)
		second := gocronlock.NewElector(clients[1], "scheduler")
		masters.AwaitWaiter("scheduler")
		wantIs(t, second.IsLeader(t.Context()), election.ErrNotLeader)
		if second.Lease() != nil {
			t.Error("a lease without a term")
		}
		noErr(t, first.Close())
		noErr(t, first.Close())
		wantIs(t, first.IsLeader(t.Context()), election.ErrNotLeader)
		leads(t, second)

		masters.Outage(redlocktest.All)
		time.Sleep(2 * redlock.DefaultTTL)
		wantIs(t, second.IsLeader(t.Context()), election.ErrNotLeader)
		masters.Heal()
		time.Sleep(2 * redlock.DefaultTTL)
		noErr(t, second.IsLeader(t.Context()))
		noErr(t, second.Close())
	})
}

// The masters refused once. The Elector campaigns again and waits behind another leader, which is all that it says then.
func TestElector_refusalIsOver_notNamedAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fleet, masters *redlocktest.Masters, clients []*redlock.Client) {
		masters.Refuse()
		e := gocronlock.NewElector(clients[0], "scheduler")
		defer e.Close()
		synctest.Wait()
		wantIs(t, e.IsLeader(t.Context()), election.ErrNotLeader, redlock.ErrRefused)
		masters.Heal()
		leader := masters.Hold("scheduler")
		masters.AwaitWaiter("scheduler")
		if err := e.IsLeader(t.Context()); !errors.Is(err, election.ErrNotLeader) || errors.Is(err, redlock.ErrRefused) {
			t.Errorf("got %v", err)
		}
		noErr(t, leader.Unlock(t.Context()))
		leads(t, e)
	})
}

// A process that was stopped for longer than its lease does not lead when it goes on, whatever has not run
// yet.
func TestElector_processWasStopped_leadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := simtest.New(3)
		noErr(t, masters.Init(t.Context()))
		var e *gocronlock.Elector
		told := 0 // an Observer asks the Elector, within the IsLeader that is the first to see that the lease is over
		ended := &event.Observer{Ended: func(event.End) {
			if e.Lease() != nil {
				told++
			}
		}}
		client, err := masters.Open(t.Context(), nil, redlock.WithObserver(ended))
		noErr(t, err)
		defer client.Close()
		e = gocronlock.NewElector(client.Client, "scheduler")
		defer e.Close()
		leads(t, e)
		client.Clock.Stop(redlock.DefaultTTL)
		wantIs(t, e.IsLeader(t.Context()), election.ErrNotLeader)
		if told != 1 {
			t.Errorf("the Observer was told %d times", told)
		}
	})
}

func TestBadInput_saysWhatToDo(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fleet, masters *redlocktest.Masters, clients []*redlock.Client) {
		lock := func(l *gocronlock.Locker, key string) error {
			_, err := l.Lock(t.Context(), key)
			return err
		}
		elect := func(c *redlock.Client, name string) error {
			e := gocronlock.NewElector(c, name)
			synctest.Wait()
			defer e.Close()
			return e.IsLeader(t.Context())
		}
		var none *gocronlock.Locker
		var nobody *gocronlock.Elector
		for says, err := range map[string]error{
			"make it with NewLocker":    lock(none, jobName),
			"a nil or zero Locker":      lock(&gocronlock.Locker{}, jobName),
			"make it with Open or New":  lock(gocronlock.NewLocker(nil, 0), jobName),
			"minimum hold -1ns: want 0": lock(gocronlock.NewLocker(clients[0], -1), jobName),
			`job "" is skipped`:         lock(gocronlock.NewLocker(clients[0], 0), ""),
			"make it with NewElector":   nobody.IsLeader(t.Context()),
			"a nil or zero Elector":     (&gocronlock.Elector{}).IsLeader(t.Context()),
			"a nil or zero Client":      elect(nil, "scheduler"),
			`"": redlock: bad`:          elect(clients[0], ""),
		} {
			wantIs(t, err, redlock.ErrConfig)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %q", err, says)
			}
		}
		if none.Lease(jobName) != nil || nobody.Lease() != nil {
			t.Error("a lease of nothing")
		}
		noErr(t, nobody.Close())
		masters.Outage(redlocktest.All)
		err := lock(gocronlock.NewLocker(clients[0], 0), jobName)
		wantIs(t, err, redlock.ErrUnreachable)
	})
}
