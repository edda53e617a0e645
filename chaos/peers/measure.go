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
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/peers/etcd"
	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/chaos/peers/rivals"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// axes are the questions, in the order in which results shows them.
func axes() []*rivals.Cell {
	return []*rivals.Cell{
		{ID: "own-1", Callers: 1}, {ID: "own-16", Callers: 16}, {ID: "own-64", Callers: 64},
		{ID: "far-1", Callers: 1, Delay: 2}, {ID: "far-16", Callers: 16, Delay: 2}, {ID: "far10-1", Callers: 1, Delay: 10},
		{ID: "many-1k", Callers: 16, Locks: 1000}, {ID: "many-1M", Callers: 16, Locks: 1_000_000},
		{ID: "slow-16", Callers: 16, Slow: 10}, {ID: "dead-16", Callers: 16, Dead: true}, {ID: "hung-16", Callers: 16, Hung: true},
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
	found := map[string]string{"redlock": "this commit", "setnx": "SET NX PX by hand", library.Floor: "internal/floor, this commit", library.Resp: "the same, without go-redis", redissonName: redissontest.Version}
	found[etcdName], _ = etcd.Version()
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

// asked is what a command line of measure asks for.
type asked struct {
	names      []string // of the libraries that can be measured here
	libs, only string
	rounds     int
	duration   time.Duration
	clients    int
	file       string
	held       string
	counts     []int // that held names
	heldTTL    time.Duration
	faults     time.Duration // of each run under faults
	commit     string
}

// parse returns false if the arguments are none, and has said so.
func (a *asked) parse(args []string, stderr io.Writer) bool {
	fs := flag.NewFlagSet("measure", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&a.libs, "locks", strings.Join(rivals.Libraries, ","), "`NAME,..` libraries")
	fs.StringVar(&a.only, "cells", "", "`ID,..` questions; default all")
	fs.IntVar(&a.rounds, "rounds", 10, "`N` rounds, in each of which all libraries take turns")
	fs.DurationVar(&a.duration, "duration", 500*time.Millisecond, "`TIME` of each measurement")
	fs.IntVar(&a.clients, "clients", 4, "`N` clients that share the callers")
	fs.StringVar(&a.file, "json", "", "`FILE` for the raw data")
	fs.StringVar(&a.held, "held", "", "`N,..` locks that one process keeps; default none")
	fs.DurationVar(&a.heldTTL, "held-ttl", 30*time.Second, "`TIME` that these locks last, or longer where there are many; they are kept for longer than that")
	fs.DurationVar(&a.faults, "faults", 0, "`TIME` that each nemesis of table strikes each library that it has; default none")
	fs.StringVar(&a.commit, "commit", "", "`COMMIT` that is measured")
	if fs.Parse(args) != nil || fs.NArg() > 0 {
		return false
	}
	for name := range strings.SplitSeq(a.libs, ",") {
		if !slices.Contains(rivals.Libraries, name) {
			fmt.Fprintf(stderr, "no library %q: want %s\n", name, strings.Join(rivals.Libraries, ", "))
			return false
		}
		if err := absent(name); err != nil {
			fmt.Fprintf(stderr, "left out: %s: %v\n", name, err)
			continue
		}
		a.names = append(a.names, name)
	}
	if a.file == "" || a.rounds < 1 || a.clients < 1 || a.duration <= 0 || a.faults < 0 {
		fmt.Fprintln(stderr, "measure: want --json FILE, --rounds, --clients and --duration above 0, and --faults of 0 or more")
		return false
	}
	var ids []string
	for _, c := range axes() {
		ids = append(ids, c.ID)
	}
	for id := range strings.SplitSeq(a.only, ",") {
		if a.only != "" && !slices.Contains(ids, id) {
			fmt.Fprintf(stderr, "measure: no question %q: want %s\n", id, strings.Join(ids, ", "))
			return false
		}
	}
	if a.held != "" {
		var err error
		if a.counts, err = list(a.held, strconv.Atoi); err != nil || slices.Min(a.counts) < 1 || a.heldTTL < 3*time.Second {
			fmt.Fprintf(stderr, "measure: --held %s --held-ttl %v: want numbers above 0 with commas between them, and 3s or more\n", a.held, a.heldTTL)
			return false
		}
	}
	file, err := os.OpenFile(a.file, os.O_CREATE|os.O_WRONLY, 0o644) // now, and not after an hour. What is in it stays until then
	if err != nil {
		fmt.Fprintf(stderr, "measure: --json: %v\n", err)
		return false
	}
	_ = file.Close()
	return true
}

// deeper is what begins a line of indented JSON inside a library of a cell or the runs of a nemesis, and the line that ends one.
var deeper = regexp.MustCompile(`\n {5,}|\n {4}([\]}])`)

// readable returns the data as JSON, with one line for all rounds of a library in a cell, and for all runs of a nemesis.
func readable(r *rivals.Data) ([]byte, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return append(deeper.ReplaceAll(text, []byte("$1")), '\n'), err
}

// measureAll asks every question of every library, in turns, and writes what it saw.
func measureAll(ctx context.Context, self string, args []string, stdout, stderr io.Writer) int {
	var a asked
	if !a.parse(args, stderr) {
		return 2
	}
	r, err := a.measure(ctx, self, stderr)
	if err == nil {
		var text []byte
		if text, err = readable(r); err == nil {
			err = os.WriteFile(a.file, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	fmt.Fprintf(stdout, "%d cells, %d rounds: %s\n", len(r.Cells), r.Rounds, a.file)
	return 0
}

func (a *asked) measure(ctx context.Context, self string, say io.Writer) (*rivals.Data, error) {
	_, server, err := localredis.Find()
	if err != nil {
		return nil, err
	}
	command := fmt.Sprintf("go run -C chaos/peers . measure --rounds %d --duration %v --clients %d --locks %s", a.rounds, a.duration, a.clients, a.libs)
	if a.only != "" {
		command += " --cells " + a.only
	}
	if a.held != "" {
		command += fmt.Sprintf(" --held %s --held-ttl %v", a.held, a.heldTTL)
	}
	if a.faults > 0 {
		command += fmt.Sprintf(" --faults %v", a.faults)
	}
	r := &rivals.Data{
		Run:      testbed.Here(command+" --json FILE", "redis-server "+server+", no persistence, 127.0.0.1"),
		Versions: versions(), Masters: 5, Clients: a.clients, Rounds: a.rounds, Seconds: a.duration.Seconds(),
	}
	if a.commit != "" {
		r.Run.Build = a.commit
	}
	for _, c := range axes() {
		if a.only == "" || strings.Contains(","+a.only+",", ","+c.ID+",") {
			c.Rounds = map[string][]rivals.Figures{}
			r.Cells = append(r.Cells, c)
		}
	}
	if err := measureIn(ctx, r, a.names, a.duration, say); err != nil {
		return nil, err
	}
	if r.Held, err = keepAll(ctx, a.names, a.counts, a.heldTTL, say); err != nil {
		return nil, err
	}
	r.Struck, err = strikeAll(ctx, self, a.names, a.faults, say)
	return r, err
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
		err := withMasters(ctx, w, func(b *bed) error {
			for n := range r.Rounds {
				for _, c := range cells[w] {
					fmt.Fprintf(say, "round %d of %d: %s\n", n+1, r.Rounds, c.ID)
					if err := b.round(ctx, c, n, names, r.Clients, d); err != nil {
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
func (b *bed) round(ctx context.Context, c *rivals.Cell, n int, names []string, clients int, d time.Duration) error {
	for i := range names {
		name := names[(i+n)%len(names)]
		if !answers(name, c) {
			continue
		}
		p := press{library: name, waiters: c.Callers, clients: min(clients, c.Callers), hold: time.Duration(c.Hold * float64(time.Millisecond)), duration: d, own: !c.Hot, locks: c.Locks}
		if c.Asks > 0 {
			p.period = time.Duration(float64(c.Callers) / c.Asks * float64(time.Second))
		}
		saw, err := b.ask(ctx, c, p)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s, %s: %w", c.ID, name, err)
		}
		us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		c.Rounds[name] = append(c.Rounds[name], rivals.Figures{Rate: saw.rate, P50: us(saw.p50), P99: us(saw.p99), Jain: saw.jain, CPU: us(saw.cpu), Masters: us(saw.masters), Failures: saw.failures})
	}
	return nil
}

// answers says whether a question can be asked of a library. etcd has servers of its own, with which nothing is wrong, and a yardstick waits
// neither for a lock nor for a master.
func answers(name string, c *rivals.Cell) bool {
	switch name {
	case etcdName:
		return worldOf(c).plain()
	case library.Floor, library.Resp:
		return !c.Hot && c.Locks == 0 && !c.Hung && !c.Dead
	}
	return true
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
