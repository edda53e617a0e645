// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/nemesis"
)

// The columns and rows of the table by default. The first row has no faults.
const (
	columns = "redlock,redsync,redislock,rueidislock"
	rows    = "none,wipe-minority,flush-data,fail-over,restore-copy,wipe-majority,freeze-client,freeze-masters,partition,reorder,step-clock"
)

// cell is what one run showed.
type cell struct{ overlaps, claims, faults int }

func (c cell) String() string { return fmt.Sprintf("%d of %d", c.overlaps, c.claims) }

// table runs every nemesis on every library and prints how many of the claims on locks overlapped another one.
func table(ctx context.Context, self string, args []string, stdout, stderr io.Writer) (code int) {
	fs := flag.NewFlagSet("table", flag.ContinueOnError)
	fs.SetOutput(stderr)
	libs := fs.String("locks", columns, "`NAME,..` libraries")
	faults := fs.String("nemeses", rows, "`NAME,..` nemeses; none: a run without faults")
	duration := fs.Duration("duration", 12*time.Second, "`TIME` of the faults of each run")
	ttl := fs.Duration("ttl", 2*time.Second, "`TIME` that a lock is granted for")
	seed := fs.Uint64("seed", 1, "`N` of every random choice, the same for each run")
	if fs.Parse(args) != nil || fs.NArg() > 0 {
		return 2
	}
	names := strings.Split(*libs, ",")
	fmt.Fprintf(stdout, "| nemesis | %s | faults |\n|%s\n", strings.Join(names, " | "), strings.Repeat(" --- |", len(names)+2))
	for name := range strings.SplitSeq(*faults, ",") {
		cfg := chaos.Config{Driver: cluster.Process, Client: self, Duration: *duration, Seed: *seed, AtOnce: 1, TTL: *ttl, MaxTTL: *ttl}
		if name != "none" {
			ns, err := nemesis.Parse(name, func(n nemesis.Nemesis) string { return n.Lacks(cfg.Has()) })
			if err != nil {
				fmt.Fprintln(stderr, err)
				return 2
			}
			cfg.Nemeses = ns
		}
		fmt.Fprintf(stdout, "| %s |", name)
		struck := make([]string, len(names))
		for i, lib := range names {
			cfg.Library = lib
			c, err := measure(ctx, cfg)
			if ctx.Err() != nil {
				return 3
			}
			struck[i] = fmt.Sprint(c.faults)
			if err != nil { // the other cells may still be had
				fmt.Fprintf(stderr, "%s under %s: %v\n", lib, name, err)
				fmt.Fprint(stdout, " no result |")
				code = 3
				continue
			}
			fmt.Fprintf(stdout, " %v |", c)
		}
		fmt.Fprintf(stdout, " %s |\n", strings.Join(struck, ", "))
	}
	return code
}

// measure runs once and counts the claims that overlapped an earlier one, also those in times for which exclusion is not promised.
func measure(ctx context.Context, cfg chaos.Config) (c cell, err error) {
	cfg.Report = func(o chaos.Outcome) error {
		for _, r := range o.Checks {
			if r.ID != "exclusion" {
				continue
			}
			c.overlaps = len(r.Violations) + r.More + len(r.NotJudged) + r.MoreNotJudged
			for _, f := range r.Figures {
				if f.Name == "claims" {
					c.claims = int(f.Value)
				}
			}
		}
		for _, n := range o.Result.Faults {
			c.faults += n
		}
		for _, v := range o.Result.Violations {
			if v.Checker == "harness" || v.Checker == "assumptions" {
				return fmt.Errorf("the run says nothing: %s: %s", v.Checker, v.Detail)
			}
		}
		return nil
	}
	_, err = chaos.Run(ctx, cfg)
	return c, err
}
