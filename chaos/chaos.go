// SPDX-License-Identifier: Apache-2.0

// Package chaos runs clients of the lock on real Redis masters, injects faults into masters, clients and the network between them, and
// checks the recorded history afterwards.
//
// Run is the entry point. It starts masters (package cluster) and client processes (package workload), lets nemeses strike (package
// nemesis), records every operation (package history) and runs the checkers (package check). Failover runs one scripted experiment. With
// the driver Sim, Run uses masters in memory instead (package sim).
//
// A Result without violations means three things: the recorded history breaks none of the promises that hold under the nemeses of the
// run, as far as the checkers can see; the run did enough to mean something; and nothing is said about other runs. Masters, clients and
// harness must be on one host, because all of them read one CLOCK_MONOTONIC.
//
// A run removes every process, container, network and file that it made, however it ends. If the harness panics or is killed, a second
// process (the reaper of package cluster) removes them. For that the program must call Serve before anything else.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/redlock"
)

// Config describes a run. The zero value of a field means its default.
type Config struct {
	Driver      cluster.Driver      // Docker, Process or Sim; default Docker if an engine answers, else Process
	Image       string              // the image of the docker driver; see cluster.Config
	Nodes       []string            // URLs of masters that somebody else runs, instead of own ones; see nodes.go
	Prefix      string              // of the names of all locks; default nothing, with Nodes NodesPrefix
	Allowed     []string            // nemeses that strike Nodes because their operator allows it: some of nemesis.OnRequest
	Servers     []string            // the server programs of the process driver; see cluster.Config
	Masters     int                 // default 5
	Persistence cluster.Persistence // what a master keeps on disk; default nothing
	Clients     int                 // client processes; default 3
	Duration    time.Duration       // how long faults strike; default 30 s. The start, the aftermath and the checks come on top
	Seed        uint64              // of every random choice. The timing of the machine also decides what a choice leads to
	Nemeses     []nemesis.Nemesis   // the faults of the run; none means that nothing goes wrong
	Client      string              // a program of the user's, which is started as the clients (docs/history.md); default this program
	Library     string              // the library that Client uses, if it knows several
	Other       string              // another build of the clients' program, which the nemesis rolling-upgrade starts clients of
	Mutant      string              // the mutant of the lock that the clients are; empty: the lock. Only in a build with the tag mutants
	AtOnce      int                 // how many nemeses strike at the same time; default 2
	Workloads   []workload.Kind     // default all
	TTL         time.Duration       // of the locks; default 600 ms. See LongestTTL
	MaxTTL      time.Duration       // of the epoch, and so the quarantine of a master; default 1 s. See LongestMaxTTL
	LeastFaults int                 // faults go on until this many struck, for at most another Duration and 30 s. Fewer are a violation of effort
	LeastLocks  int                 // faults also go on until this many locks were granted while a fault was at work, for at most another minute. Likewise
	Min         *judge.Minimums     // what the run must have done; default see Minimums
	Replay      string              // the command that repeats the run, for the record
	Out         io.Writer           // receives a few lines about Docker, the servers and an interruption; nil discards them
	Progress    func(Progress)      // called a few times a second, from one goroutine; may be nil
	Report      func(Outcome) error // called with the outcome, whatever the verdict; may be nil
}

func (c Config) withDefaults() Config {
	if len(c.Nodes) > 0 {
		c.Masters, c.Prefix = len(c.Nodes), cmp.Or(c.Prefix, NodesPrefix(c.Seed))
	}
	c.Masters = cmp.Or(c.Masters, 5)
	c.Clients = cmp.Or(c.Clients, 3)
	c.Duration = cmp.Or(c.Duration, 30*time.Second)
	c.AtOnce = cmp.Or(c.AtOnce, 2)
	c.TTL = cmp.Or(c.TTL, 600*time.Millisecond)
	c.MaxTTL = cmp.Or(c.MaxTTL, time.Second)
	if len(c.Workloads) == 0 {
		c.Workloads = workload.Kinds()
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Min == nil {
		m := Minimums(c)
		c.Min = &m
	}
	return c
}

// Has returns what a run of this Config offers its nemeses.
func (c Config) Has() nemesis.Have {
	return nemesis.Have{Persistence: c.Persistence, Other: c.Other != "", Servers: len(c.Servers) > 1, Foreign: c.Client != "", Remote: len(c.Nodes) > 0, Allowed: c.Allowed}
}

// Minimums returns what a run of this Config must do to mean something: 10 locks a second, 10 contended calls, a token for each lock, a
// reader if there are any, and one strike of each nemesis. A client of the user's need not have tokens and readers.
func Minimums(c Config) judge.Minimums {
	m := judge.Minimums{Acquisitions: int(c.Duration.Seconds() * 10), Contended: 10, Faults: map[string]int{}}
	if c.Client == "" {
		m.Tokens = m.Acquisitions
		if len(c.Workloads) == 0 || slices.Contains(c.Workloads, workload.RW) {
			m.Readers = 1
		}
	}
	for _, n := range c.Nemeses {
		m.Faults[n.Name] = 1
	}
	return m
}

// Serve turns this process into a client or a reaper if a run started it as one. It then does not return. Run and Failover start the
// program's own executable again, so a program that calls them must call Serve before anything else.
func Serve() {
	workload.Serve()
	leftover.Serve()
}

// Outcome is a run and its verdict.
type Outcome struct {
	Result  *Result
	History history.Source // its files are removed when Config.Report returns
	Checks  []check.Result
	Logs    map[string][]byte // the ends of the logs of masters and clients, by name
}

// nodeTimeout is how long a client waits for one master. Clients use the default of package redlock.
const nodeTimeout = redlock.DefaultNodeTimeout

// Run runs the masters, clients and nemeses of cfg and checks the history. It returns an error if there is nothing to judge: for example
// the masters could not be started, or ctx ended. A violation is not an error: see Result.Violations. If the run does not come to its end,
// for example because a client crashes, hangs, or a fault cannot be healed, Run checks what was recorded, and Violations says why. A Result
// and an error are both returned if the run was judged, and then Config.Report failed or something that the run made could not be removed.
// In the error there is a LeftError for what could not be removed.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.withDefaults()
	r := &run{cfg: cfg, began: time.Now()}
	if cfg.Driver == Sim {
		h, err := simulate(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return r.judge(ctx, history.Whole(h))
	}
	reaper, err := leftover.Watch()
	if err != nil {
		return nil, err
	}
	defer reaper.Close()
	defer r.remove() // also when something panics
	h, err := r.real(ctx)
	if err != nil {
		return nil, err
	}
	res, err := r.judge(ctx, h)
	rest := r.remove()
	if res == nil { // no Violations say it
		rest = errors.Join(r.unclosed, rest)
	}
	return res, errors.Join(err, left(rest))
}

// judge checks what was recorded, as chaos check does it, and reports it.
func (r *run) judge(ctx context.Context, h history.Source) (*Result, error) {
	checks, tally, err := judge.Run(ctx, h, judge.Expected(h.Run(), time.Minute), judge.ChapterOps)
	if err != nil && r.dir != "" && ctx.Err() == nil {
		return nil, r.keepUnread(err)
	}
	if err != nil {
		return nil, err
	}
	res := newResult(tally, checks, r)
	if r.cfg.Report != nil {
		if err := r.cfg.Report(Outcome{Result: res, History: h, Checks: checks, Logs: r.logs}); err != nil {
			return res, fmt.Errorf("chaos: report: %w", err)
		}
	}
	return res, nil
}
