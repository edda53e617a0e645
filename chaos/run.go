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

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/node/faultproxy"
	"github.com/redlock-go/redlock/redlock"
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
	lasted         time.Duration     // how long faults struck
	logs           map[string][]byte // of masters and clients, by name
}

// real runs against real masters and removes them afterwards.
func (r *run) real(ctx context.Context) (*history.History, error) {
	if err := preflight(r.cfg.Masters, r.cfg.Clients); err != nil {
		return nil, err
	}
	reaper, err := cluster.Watch()
	if err != nil {
		return nil, err
	}
	defer reaper.Close()
	defer r.close() // also when something panics
	h, err := r.record(ctx)
	if err := errors.Join(err, r.close()); err != nil && (h == nil || ctx.Err() != nil) {
		return nil, err
	} else if err != nil {
		// What was recorded is judged all the same, and the run has failed.
		h.Findings = append(h.Findings, history.Finding{At: history.Now(), Detail: err.Error()})
	}
	return h, nil
}

// record starts everything, lets the nemeses strike, and returns the recorded history. If the run did not come to its end, for example because
// a client crashed or a fault could not be healed, record returns the history so far and the error.
func (r *run) record(ctx context.Context) (*history.History, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	alive, end := context.WithCancel(ctx)
	pulses := make(chan error, 1)
	go func() { pulses <- workload.Pulses(alive, r.history, "harness") }()
	err := r.strike(ctx)
	if err == nil {
		err = guard(func() error { return r.aftermath(ctx) })
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
	h, readErr := history.ReadFiles(paths...)
	return h, errors.Join(err, globErr, closeErr, readErr)
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
	if r.dir, err = cluster.TempDir(); err != nil {
		return err
	}
	cc := cluster.Config{Driver: r.cfg.Driver, Image: r.cfg.Image, Servers: r.cfg.Servers, Masters: r.cfg.Masters, Persistence: r.cfg.Persistence, Out: r.cfg.Out}
	for _, n := range r.cfg.Nemeses {
		cc.Clocks = cc.Clocks || n.Needs.Clocks
	}
	if r.cluster, err = cluster.Open(ctx, cc); err != nil {
		return err
	}
	// The registers stand for the storage of an application: a server that is not one of the masters.
	if r.registerServer, err = cluster.Open(ctx, cluster.Config{Driver: r.cluster.Driver(), Image: r.cfg.Image, Servers: r.cfg.Servers, Masters: 1}); err != nil {
		return err
	}
	r.target = &nemesis.Target{
		TTL: r.cfg.TTL, NodeTimeout: nodeTimeout, Has: r.cfg.Has(), Clocks: cc.Clocks,
		Locks: append(workload.Locks(r.cfg.Workloads), serviceLock), Misconfigured: r.misconfigured,
	}
	for i, m := range r.cluster.Masters() {
		r.target.Nodes = append(r.target.Nodes, nemesis.NewNode(fmt.Sprintf("m%d", i+1), m))
	}
	if err := r.openHistory(ctx); err != nil {
		return err
	}
	own, err := r.links()
	if err != nil {
		return err
	}
	r.target.Spare = append(r.target.Spare, own)
	opts := []redlock.Option{redlock.WithTTL(r.cfg.TTL), redlock.WithMaxTTL(r.cfg.MaxTTL), redlock.WithFixedMasters()}
	if err := redlock.Init(ctx, redlock.List{URLs: urls(own), Options: opts}, nil, redlock.NothingWasEverLocked); err != nil {
		return err
	}
	if r.locks, err = redlock.Open(ctx, urls(own), opts...); err != nil {
		return err
	}
	if r.target.Service, err = r.links(); err != nil {
		return err
	}
	if r.service, err = redlock.Open(ctx, urls(r.target.Service), opts...); err != nil {
		return err
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

// idle returns the checkers to which a run gives nothing to judge.
func idle(cfg Config) (checkers []string) {
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
func urls(ps []*faultproxy.Proxy) []string {
	us := make([]string, len(ps))
	for i, p := range ps {
		us[i] = "redis://" + p.Addr() + "?name=" + url.QueryEscape(fmt.Sprintf("m%d", i+1))
	}
	return us
}

func (r *run) openClients(ctx context.Context) error {
	for i := range r.cfg.Clients {
		links, err := r.links()
		if err != nil {
			return err
		}
		s := &clientSlot{name: fmt.Sprintf("c%d", i+1), dir: r.dir, other: r.cfg.Other, spec: workload.Spec{
			Seed: r.cfg.Seed, Nodes: urls(links), Register: r.registerServer.Masters()[0].Addr(), Kinds: r.cfg.Workloads,
			TTL: r.cfg.TTL, MaxTTL: r.cfg.MaxTTL, Think: think, Header: r.header,
		}}
		if err := s.start(ctx); err != nil {
			return err
		}
		r.clients = append(r.clients, s)
		r.target.Links = append(r.target.Links, links)
		r.target.Clients = append(r.target.Clients, s)
	}
	return nil
}

// think is how long a worker pauses between two locks. Some 30 workers then keep two cores half busy. With busier cores the scheduler
// would decide which client waits; with this pause the faults decide.
const think = 5 * time.Millisecond

// close stops and removes everything that the run started. It goes on after an error and joins the errors.
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
	for _, c := range []*cluster.Cluster{r.cluster, r.registerServer} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if r.file != nil {
		_ = r.file.Close() // record closes it too, unless it fails before
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}
