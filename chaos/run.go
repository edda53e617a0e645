// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// run is one run against real masters.
type run struct {
	cfg            Config
	began          time.Time
	dir            string // holds the history files
	cluster        *cluster.Cluster
	registerServer *cluster.Cluster // one Redis server for the registers; no nemesis touches it
	clients        []*clientSlot
	proxies        []*faultproxy.Proxy
	target         *nemesis.Target
	header         history.Header
	file           *os.File        // the history file of the harness
	history        *history.Writer // writes to file
	locks          *redlock.Client // the harness's own client, whose links have no faults
	service        *redlock.Client // another, for the service: see serve
	misfits        atomic.Int64    // counts the clients of the nemesis misconfigure
	faults         faultLog
	disturbed      atomic.Int64 // locks granted while a fault was at work
	due            queue
	claimed        bool              // something may be on the masters of Config.Nodes
	lasted         time.Duration     // how long faults struck
	logs           map[string][]byte // of masters and clients, by name
	unclosed       error             // what close returned
}

// real runs against real masters and removes them afterwards. What was recorded is in r.dir, which remove removes. After an error nothing is
// left, or a LeftError says what is.
func (r *run) real(ctx context.Context) (history.Source, error) {
	if err := preflight(r.cfg.Masters, r.cfg.Clients); err != nil {
		return nil, err
	}
	defer r.close() // also when something panics
	files, err := r.record(ctx)
	if ctx.Err() != nil && r.claimed {
		fmt.Fprintf(r.cfg.Out, "interrupted: cleaning up: deleting the keys of the run from your masters, for %v at most\n", leaveTime)
	}
	r.unclosed = r.close()
	if all := errors.Join(err, r.unclosed); all != nil && (files == nil || ctx.Err() != nil) {
		return nil, errors.Join(err, left(errors.Join(r.unclosed, r.remove())))
	} else if all != nil {
		// What was recorded is judged all the same, and the run has failed.
		h := files.Run()
		h.Findings = append(h.Findings, history.Finding{At: history.Now(), Detail: all.Error()})
	}
	return files, nil
}

// record starts everything, lets the nemeses strike, and returns the recorded history, which is in files. If the run did not come to its end,
// for example because a client crashed or a fault could not be healed, record returns the history so far and the error.
func (r *run) record(ctx context.Context) (*history.Files, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	alive, end := context.WithCancel(ctx)
	pulses := make(chan error, 1)
	go func() { pulses <- workload.Pulses(alive, r.history, "harness") }()
	err := r.strike(ctx)
	if err == nil {
		err = r.awaitAftermath(ctx)
	}
	end()
	err = errors.Join(err, <-pulses)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil { // clients may be stopped, or wait for masters that are gone
		for _, s := range r.clients {
			s.now().Kill()
		}
	}
	r.collectLogs(ctx)
	paths, globErr := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	closeErr := r.file.Close()
	files, readErr := history.Open(paths...)
	if readErr != nil {
		readErr = r.keepUnread(readErr)
	}
	return files, errors.Join(err, globErr, closeErr, readErr)
}

// collectLogs keeps the logs of masters and clients for the Outcome.
func (r *run) collectLogs(ctx context.Context) {
	r.logs = r.cluster.Logs(ctx)
	for name, log := range r.registerServer.Logs(ctx) {
		r.logs["registers-"+name] = log
	}
	for _, s := range r.clients {
		for name, log := range s.logs() {
			r.logs[name] = log
		}
	}
}

// open starts masters, proxies and clients.
func (r *run) open(ctx context.Context) error {
	var err error
	if r.dir, err = leftover.TempDir(); err != nil {
		return err
	}
	cc := cluster.Config{Driver: r.cfg.Driver, Image: r.cfg.Image, Servers: r.cfg.Servers, Nodes: r.cfg.Nodes, Masters: r.cfg.Masters, Persistence: r.cfg.Persistence, Out: r.cfg.Out}
	for _, n := range r.cfg.Nemeses {
		cc.Clocks = cc.Clocks || n.Needs.Clocks
	}
	if r.cluster, err = cluster.Open(ctx, cc); err != nil {
		return err
	}
	// The registers stand for the storage of an application: a server that is not one of the masters.
	if r.registerServer, err = cluster.Open(ctx, cluster.Config{Driver: registerDriver(r.cluster.Driver()), Image: r.cfg.Image, Servers: r.cfg.Servers, Masters: 1}); err != nil {
		return err
	}
	r.target = &nemesis.Target{
		TTL: r.cfg.TTL, NodeTimeout: nodeTimeout, Has: r.cfg.Has(), Clocks: cc.Clocks,
		Locks: r.lockNames(), Misconfigured: r.misconfigured, Opened: r.opened,
	}
	for i, m := range r.cluster.Masters() {
		r.target.Nodes = append(r.target.Nodes, nemesis.NewNode(fmt.Sprintf("m%d", i+1), m))
	}
	if err := r.claimNodes(ctx); err != nil {
		return err
	}
	if err := r.openHistory(ctx); err != nil {
		return err
	}
	own, err := r.links()
	if err != nil {
		return err
	}
	r.target.Spare = append(r.target.Spare, own)
	_, opts := r.fitting()
	if err := admin.Init(ctx, admin.List{URLs: urls(own, r.cluster.Masters()), Options: opts}, nil, admin.NothingWasEverLocked); err != nil {
		return err
	}
	if r.locks, err = redlock.Open(ctx, urls(own, r.cluster.Masters()), opts...); err != nil {
		return err
	}
	if r.cfg.Client == "" {
		if err := r.openService(ctx, opts); err != nil {
			return err
		}
	}
	return r.openClients(ctx)
}

func (r *run) openHistory(ctx context.Context) error {
	masters, err := r.cluster.Versions(ctx)
	if err != nil {
		return err
	}
	r.header = history.Header{
		Started: r.began, Seed: r.cfg.Seed, Driver: string(r.cluster.Driver()), Masters: r.cfg.Masters, TTL: r.cfg.TTL,
		Replay: r.cfg.Replay, Promises: history.Promises{Exclusion: true, Tokens: true}, Versions: versions(masters),
		Idle: idle(r.cfg), Expect: expect(r.cfg, r.aftermathBound()),
	}
	if r.file, err = os.Create(filepath.Join(r.dir, "harness.jsonl")); err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	r.history, err = history.NewWriter(r.file, r.header)
	return err
}

// idle returns the checkers to which a run gives nothing to judge. What a client of the user's does, it says itself; but these checkers need
// records that only clients of this library make.
func idle(cfg Config) (checkers []string) {
	if cfg.Client != "" {
		return []string{"left-behind", "signals", "resources", "queue-order", "availability", "refusals"}
	}
	if !slices.Contains(cfg.Workloads, workload.Fenced) {
		checkers = append(checkers, "fenced-register")
	}
	if !slices.ContainsFunc(cfg.Nemeses, func(n nemesis.Nemesis) bool { return n.Name == "misconfigure" }) {
		checkers = append(checkers, "refusals")
	}
	return checkers
}

// expect returns what a run must keep beyond its promises. heal bounds how long after the last fault a lock may be unavailable.
func expect(cfg Config, heal time.Duration) *history.Expect {
	e := &history.Expect{Heal: heal, Min: *cfg.Min, Floors: map[string]float64{}}
	for _, n := range cfg.Nemeses {
		if n.Floor > 0 {
			e.Floors[n.Name] = n.Floor
		}
	}
	return e
}

// links starts one proxy to each node. Each client has its own links.
func (r *run) links() ([]*faultproxy.Proxy, error) {
	var ps []*faultproxy.Proxy
	for _, n := range r.target.Nodes {
		p, err := faultproxy.Start(n.Master().Addr())
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
		r.proxies = append(r.proxies, p)
	}
	return ps, nil
}

// urls returns the URLs of a client. The name of a master is the same behind every proxy, so all clients are in one epoch.
func urls(ps []*faultproxy.Proxy, masters []*cluster.Master) []string {
	us := make([]string, len(ps))
	for i, p := range ps {
		u := url.URL{Scheme: "redis", Host: p.Addr(), RawQuery: "name=" + url.QueryEscape(fmt.Sprintf("m%d", i+1))}
		username, password, db := masters[i].Login()
		if password != "" {
			u.User = url.UserPassword(username, password)
		}
		if db != 0 {
			u.Path = fmt.Sprintf("/%d", db)
		}
		us[i] = u.String()
	}
	return us
}

func (r *run) openClients(ctx context.Context) error {
	for i := range r.cfg.Clients {
		links, err := r.links()
		if err != nil {
			return err
		}
		s := &clientSlot{name: fmt.Sprintf("c%d", i+1), dir: r.dir, program: r.cfg.Client, other: r.cfg.Other, spec: r.spec(urls(links, r.cluster.Masters()))}
		if err := s.start(ctx); err != nil {
			return err
		}
		r.clients = append(r.clients, s)
		r.target.Links = append(r.target.Links, links)
		r.target.Clients = append(r.target.Clients, s)
	}
	return nil
}

// spec returns what a client has to do.
func (r *run) spec(nodes []string) workload.Spec {
	s := workload.Spec{Program: r.cfg.Client, Mutant: r.cfg.Mutant, Task: client.Task{
		Seed: r.cfg.Seed, Nodes: nodes, Locks: r.target.Locks, Library: r.cfg.Library, Register: r.registerServer.Masters()[0].Addr(),
		TTL: r.cfg.TTL, MaxTTL: r.cfg.MaxTTL, Think: think, Header: r.header,
	}}
	if r.cfg.Client == "" {
		s.Kinds, s.Prefix = r.cfg.Workloads, r.cfg.Prefix
	}
	return s
}

// lockNames returns the names of the locks of the run.
func (r *run) lockNames() []string {
	var names []string
	if r.cfg.Client == "" {
		names = append(workload.Locks(r.cfg.Workloads), serviceLock)
		if hot := string(workload.Hot); !slices.Contains(names, hot) {
			names = append(names, hot) // a storm of waiters wants it, whatever the workloads
		}
	} else {
		names = append(names, string(workload.Hot))
		for i := range foreignLocks {
			names = append(names, fmt.Sprintf("cold-%d", i+1))
		}
	}
	for i, name := range names {
		names[i] = r.cfg.Prefix + name
	}
	return names
}

// foreignLocks is how many locks a client of the user's has besides the hot one. A few: each of them is wanted often enough to show in a
// short run that it can still be taken.
const foreignLocks = 8

// think is how long a worker pauses between two locks. Some 30 workers then keep two cores half busy. With busier cores the scheduler
// would decide which client waits; with this pause the faults decide.
const think = 5 * time.Millisecond

// A LeftError says what a run could not stop or remove.
type LeftError struct{ error }

func (e LeftError) Unwrap() error { return e.error }

// left makes a LeftError of what close and remove return.
func left(err error) error {
	if err == nil {
		return nil
	}
	return LeftError{err}
}

// close stops and removes everything that the run started, but not the history. It goes on after an error and joins the errors.
func (r *run) close() error {
	var errs []error
	for _, s := range r.clients {
		s.now().Kill()
	}
	for _, c := range []*redlock.Client{r.locks, r.service} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	for _, p := range r.proxies {
		errs = append(errs, p.Close())
	}
	errs = append(errs, r.leaveNodes())
	for _, c := range []*cluster.Cluster{r.cluster, r.registerServer} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if r.file != nil {
		_ = r.file.Close() // record closes it too, unless it fails before
	}
	return errors.Join(errs...)
}

// remove removes the history.
func (r *run) remove() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}
