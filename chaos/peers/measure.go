// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// raw is what measure writes and results reads: every round of every library in every cell.
type raw struct {
	Run      *testbed.Run      `json:"run"`
	Versions map[string]string `json:"versions"` // of the libraries
	Masters  int               `json:"masters"`
	Clients  int               `json:"clients"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds"` // of each measurement
	Cells    []*rawCell        `json:"cells"`
}

// rawCell is one question, asked of each library in each round.
type rawCell struct {
	ID      string               `json:"id"`
	Callers int                  `json:"callers"`
	Hot     bool                 `json:"hot"` // all want one lock; else each has its own
	Hold    float64              `json:"hold_ms"`
	Delay   float64              `json:"delay_ms"`        // that proxies add to each round trip
	Hung    bool                 `json:"one_master_hung"` // it is stopped, and answers nothing
	Dead    bool                 `json:"one_master_dead"` // it has ended: connections to it are refused
	Rounds  map[string][]figures `json:"rounds"`
}

// figures are one round of one library. Times are of acquire and release where each caller has its own lock, and of the wait where all want one.
type figures struct {
	Rate     float64 `json:"locks_per_second"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Jain     float64 `json:"jain"`
	CPU      float64 `json:"cpu_us_per_lock"`         // of the process with all clients
	Masters  float64 `json:"masters_cpu_us_per_lock"` // of all masters together
	Failures int     `json:"failures"`                // calls that ended without the lock
}

// axes are the questions, in the order in which results shows them.
func axes() []*rawCell {
	return []*rawCell{
		{ID: "own-1", Callers: 1}, {ID: "own-16", Callers: 16}, {ID: "own-64", Callers: 64},
		{ID: "far-1", Callers: 1, Delay: 2}, {ID: "far-16", Callers: 16, Delay: 2}, {ID: "far10-1", Callers: 1, Delay: 10},
		{ID: "dead-16", Callers: 16, Dead: true}, {ID: "hung-16", Callers: 16, Hung: true},
		{ID: "hot-8-0", Callers: 8, Hot: true}, {ID: "hot-64-0", Callers: 64, Hot: true},
		{ID: "hot-8", Callers: 8, Hot: true, Hold: 1}, {ID: "hot-64", Callers: 64, Hot: true, Hold: 1},
		{ID: "far-hot-8", Callers: 8, Hot: true, Hold: 1, Delay: 2},
	}
}

// modules are the modules of the libraries.
var modules = map[string]string{
	"redsync": "github.com/go-redsync/redsync/v4", "redislock": "github.com/bsm/redislock", "rueidislock": "github.com/redis/rueidis",
}

func versions() map[string]string {
	found := map[string]string{"redlock": "this commit", "setnx": "SET NX PX by hand"}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return found
	}
	for _, dep := range info.Deps {
		for name, module := range modules {
			if dep.Path == module {
				found[name] = dep.Version
			}
		}
	}
	found["redsync-tuned"] = found["redsync"]
	return found
}

// measureAll asks every question of every library, in turns, and writes what it saw.
func measureAll(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("measure", flag.ContinueOnError)
	fs.SetOutput(stderr)
	libs := fs.String("locks", measured, "`NAME,..` libraries")
	only := fs.String("cells", "", "`ID,..` questions; default all")
	rounds := fs.Int("rounds", 10, "`N` rounds, in each of which all libraries take turns")
	duration := fs.Duration("duration", 500*time.Millisecond, "`TIME` of each measurement")
	clients := fs.Int("clients", 4, "`N` clients that share the callers")
	file := fs.String("json", "", "`FILE` for the raw data")
	commit := fs.String("commit", "", "`COMMIT` that is measured")
	if fs.Parse(args) != nil || fs.NArg() > 0 {
		return 2
	}
	names, err := chosen(*libs)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if *file == "" || *rounds < 1 || *clients < 1 || *duration <= 0 {
		fmt.Fprintln(stderr, "measure: want --json FILE, and --rounds, --clients and --duration above 0")
		return 2
	}
	_, server, err := localredis.Find()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	r := &raw{
		Run:      testbed.Here(fmt.Sprintf("go run -C chaos/peers . measure --rounds %d --duration %v --clients %d --locks %s --json FILE", *rounds, *duration, *clients, *libs), "redis-server "+server+", no persistence, 127.0.0.1"),
		Versions: versions(), Masters: 5, Clients: *clients, Rounds: *rounds, Seconds: duration.Seconds(),
	}
	if *commit != "" {
		r.Run.Build = *commit
	}
	for _, c := range axes() {
		if *only == "" || strings.Contains(","+*only+",", ","+c.ID+",") {
			c.Rounds = map[string][]figures{}
			r.Cells = append(r.Cells, c)
		}
	}
	if err := r.measure(ctx, names, *duration, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(*file, append(text, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	fmt.Fprintf(stdout, "%d cells, %d rounds: %s\n", len(r.Cells), r.Rounds, *file)
	return 0
}

// world is what cells must have in common to be measured on the same masters.
type world struct {
	delay      time.Duration
	hung, dead bool
}

func (c *rawCell) world() world {
	return world{time.Duration(c.Delay * float64(time.Millisecond)), c.Hung, c.Dead}
}

// measure goes through the worlds, and in each through the rounds: so all libraries see the same minutes of the machine.
func (r *raw) measure(ctx context.Context, names []string, d time.Duration, say io.Writer) error {
	var order []world
	cells := map[world][]*rawCell{}
	for _, c := range r.Cells {
		w := c.world()
		if cells[w] == nil {
			order = append(order, w)
		}
		cells[w] = append(cells[w], c)
	}
	for _, w := range order {
		err := withMasters(ctx, w.delay, func(nodes []string, servers []*localredis.Server, _ time.Duration) error {
			for round := range r.Rounds {
				for _, c := range cells[w] {
					fmt.Fprintf(say, "round %d of %d: %s\n", round+1, r.Rounds, c.ID)
					if err := c.round(ctx, round, names, nodes, servers, r.Clients, d); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// round asks each library once. Each round begins with another one.
func (c *rawCell) round(ctx context.Context, round int, names, nodes []string, servers []*localredis.Server, clients int, d time.Duration) error {
	for i := range names {
		name := names[(i+round)%len(names)]
		p := press{library: name, waiters: c.Callers, clients: min(clients, c.Callers), hold: time.Duration(c.Hold * float64(time.Millisecond)), duration: d, own: !c.Hot}
		saw, err := c.ask(ctx, p, nodes, servers)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s, %s: %w", c.ID, name, err)
		}
		us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		c.Rounds[name] = append(c.Rounds[name], figures{Rate: saw.rate, P50: us(saw.p50), P99: us(saw.p99), Jain: saw.jain, CPU: us(saw.cpu), Masters: us(saw.masters), Failures: saw.failures})
	}
	return nil
}

// ask measures one library. A master that has been killed is not used again: it forgot its votes, and ours would wait for them to end.
func (c *rawCell) ask(ctx context.Context, p press, nodes []string, servers []*localredis.Server) (saw pressed, err error) {
	p.masters = servers
	switch {
	case c.Hung:
		p.opened = servers[0].Pause
		saw, err = p.run(ctx, nodes)
		return saw, errors.Join(err, servers[0].Resume())
	case c.Dead:
		err := withMasters(ctx, 0, func(nodes []string, servers []*localredis.Server, _ time.Duration) (err error) {
			p.opened = servers[0].Kill
			p.masters = servers[1:]
			saw, err = p.run(ctx, nodes)
			return err
		})
		return saw, err
	}
	return p.run(ctx, nodes)
}

// used is how long the servers' main threads, which do all their work, have been on a processor; 0 where the system does not tell.
func used(servers []*localredis.Server) (sum time.Duration) {
	for _, s := range servers {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.PID()))
		ns, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(ns, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}
