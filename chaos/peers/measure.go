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
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/peers/rivals"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// axes are the questions, in the order in which results shows them.
func axes() []*rivals.Cell {
	return []*rivals.Cell{
		{ID: "own-1", Callers: 1}, {ID: "own-16", Callers: 16}, {ID: "own-64", Callers: 64},
		{ID: "far-1", Callers: 1, Delay: 2}, {ID: "far-16", Callers: 16, Delay: 2}, {ID: "far10-1", Callers: 1, Delay: 10},
		{ID: "dead-16", Callers: 16, Dead: true}, {ID: "hung-16", Callers: 16, Hung: true},
		{ID: "hot-8-0", Callers: 8, Hot: true}, {ID: "hot-64-0", Callers: 64, Hot: true},
		{ID: "hot-8", Callers: 8, Hot: true, Hold: 1}, {ID: "hot-64", Callers: 64, Hot: true, Hold: 1},
		{ID: "far-hot-8", Callers: 8, Hot: true, Hold: 1, Delay: 2},
		{ID: "open-16", Callers: 16, Asks: 1000},
		{ID: "open-hot-64", Callers: 64, Hot: true, Hold: 1, Asks: 200}, {ID: "open-hot-64-more", Callers: 64, Hot: true, Hold: 1, Asks: 400},
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
	libs := fs.String("locks", strings.Join(rivals.Libraries, ","), "`NAME,..` libraries")
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
	r := &rivals.Data{
		Run:      testbed.Here(fmt.Sprintf("go run -C chaos/peers . measure --rounds %d --duration %v --clients %d --locks %s --json FILE", *rounds, *duration, *clients, *libs), "redis-server "+server+", no persistence, 127.0.0.1"),
		Versions: versions(), Masters: 5, Clients: *clients, Rounds: *rounds, Seconds: duration.Seconds(),
	}
	if *commit != "" {
		r.Run.Build = *commit
	}
	for _, c := range axes() {
		if *only == "" || strings.Contains(","+*only+",", ","+c.ID+",") {
			c.Rounds = map[string][]rivals.Figures{}
			r.Cells = append(r.Cells, c)
		}
	}
	if err := measureIn(ctx, r, names, *duration, stderr); err != nil {
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

func worldOf(c *rivals.Cell) world {
	return world{time.Duration(c.Delay * float64(time.Millisecond)), c.Hung, c.Dead}
}

// measureIn goes through the worlds, and in each through the rounds: so all libraries see the same minutes of the machine.
func measureIn(ctx context.Context, r *rivals.Data, names []string, d time.Duration, say io.Writer) error {
	var order []world
	cells := map[world][]*rivals.Cell{}
	for _, c := range r.Cells {
		w := worldOf(c)
		if cells[w] == nil {
			order = append(order, w)
		}
		cells[w] = append(cells[w], c)
	}
	for _, w := range order {
		err := withMasters(ctx, w.delay, func(nodes []string, servers []*localredis.Server, _ time.Duration) error {
			for n := range r.Rounds {
				for _, c := range cells[w] {
					fmt.Fprintf(say, "round %d of %d: %s\n", n+1, r.Rounds, c.ID)
					if err := round(ctx, c, n, names, nodes, servers, r.Clients, d); err != nil {
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
func round(ctx context.Context, c *rivals.Cell, n int, names, nodes []string, servers []*localredis.Server, clients int, d time.Duration) error {
	for i := range names {
		name := names[(i+n)%len(names)]
		p := press{library: name, waiters: c.Callers, clients: min(clients, c.Callers), hold: time.Duration(c.Hold * float64(time.Millisecond)), duration: d, own: !c.Hot}
		if c.Asks > 0 {
			p.period = time.Duration(float64(c.Callers) / c.Asks * float64(time.Second))
		}
		saw, err := ask(ctx, c, p, nodes, servers)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s, %s: %w", c.ID, name, err)
		}
		us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		c.Rounds[name] = append(c.Rounds[name], rivals.Figures{Rate: saw.rate, P50: us(saw.p50), P99: us(saw.p99), Jain: saw.jain, CPU: us(saw.cpu), Masters: us(saw.masters), Failures: saw.failures})
	}
	return nil
}

// ask measures one library. A master that has been killed is not used again: it forgot its votes, and ours would wait for them to end.
func ask(ctx context.Context, c *rivals.Cell, p press, nodes []string, servers []*localredis.Server) (saw pressed, err error) {
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

// results writes a page and its pictures from the raw data that measure left.
func results(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("results", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("out", ".", "`FOLDER` for results.md and the pictures")
	if fs.Parse(args) != nil {
		return 2
	}
	if fs.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: peers results [--out FOLDER] FILE, which measure --json wrote")
		return 2
	}
	r, text, err := rivals.Read(fs.Arg(0))
	if err == nil {
		err = r.Write(*out, text)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	fmt.Fprintln(stdout, filepath.Join(*out, "results.md"))
	return 0
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
