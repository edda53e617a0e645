// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/chaos/peers/rivals"
)

// The columns and rows of the table by default. The first row has no faults.
const (
	columns = "redlock,redsync,redislock,rueidislock,setnx"
	rows    = "none,wipe-minority,flush-data,fail-over,restore-copy,wipe-majority,freeze-client,freeze-masters,partition,reorder,step-clock"
)

// struck is the table by default, with so much time for the faults of each run.
func struck(d time.Duration) *rivals.Struck {
	s := &rivals.Struck{Seconds: d.Seconds(), TTL: 2, Seed: 1}
	for name := range strings.SplitSeq(rows, ",") {
		s.Nemeses = append(s.Nemeses, rivals.Nemesis{Name: name})
	}
	return s
}

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
	names, err := library.Chosen(*libs)
	s := &rivals.Struck{Seconds: duration.Seconds(), TTL: ttl.Seconds(), Seed: *seed}
	for name := range strings.SplitSeq(*faults, ",") {
		if _, unknown := config(self, s, name); err == nil {
			err = unknown
		}
		s.Nemeses = append(s.Nemeses, rivals.Nemesis{Name: name})
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	fmt.Fprint(stdout, s.Head(names))
	for i := range s.Nemeses {
		n := &s.Nemeses[i]
		if err := strike(ctx, self, s, n, names); err != nil {
			return 3
		}
		fmt.Fprint(stdout, n.Row(names))
		for _, run := range n.Runs {
			if run.Failed != "" {
				code = 3
			}
		}
	}
	return code
}

// config is the chaos run of a nemesis.
func config(self string, s *rivals.Struck, name string) (chaos.Config, error) {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	ttl := seconds(s.TTL)
	cfg := chaos.Config{Driver: cluster.Process, Client: self, Duration: seconds(s.Seconds), Seed: s.Seed, AtOnce: 1, TTL: ttl, MaxTTL: ttl}
	if name == "none" {
		return cfg, nil
	}
	ns, err := nemesis.Parse(name, func(n nemesis.Nemesis) string { return n.Lacks(cfg.Has()) })
	cfg.Nemeses = ns
	return cfg, err
}

// strike runs one nemesis on each library.
func strike(ctx context.Context, self string, s *rivals.Struck, n *rivals.Nemesis, names []string) error {
	n.Runs = map[string]rivals.Overlap{}
	for _, lib := range names {
		cfg, err := config(self, s, n.Name)
		if err != nil {
			return err
		}
		cfg.Library = lib
		run, err := overlaps(ctx, cfg)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the other cells may still be had
			run.Failed = err.Error()
		}
		n.Runs[lib] = run
	}
	return nil
}

// overlaps runs once and counts the claims that overlapped an earlier one, also those in times for which exclusion is not promised.
func overlaps(ctx context.Context, cfg chaos.Config) (run rivals.Overlap, err error) {
	cfg.Report = func(o chaos.Outcome) error {
		for _, r := range o.Checks {
			if r.ID != "exclusion" {
				continue
			}
			run.Overlaps = len(r.Violations) + r.More + len(r.NotJudged) + r.MoreNotJudged
			for _, f := range r.Figures {
				if f.Name == "claims" {
					run.Claims = int(f.Value)
				}
			}
		}
		for _, n := range o.Result.Faults {
			run.Faults += n
		}
		for _, v := range o.Result.Violations {
			if v.Checker == "harness" || v.Checker == "assumptions" {
				return fmt.Errorf("the run says nothing: %s: %s", v.Checker, v.Detail)
			}
		}
		return nil
	}
	_, err = chaos.Run(ctx, cfg)
	return run, err
}

// strikeAll runs all nemeses on those of the libraries that the table has.
func strikeAll(ctx context.Context, self string, names []string, d time.Duration, say io.Writer) (*rivals.Struck, error) {
	if d == 0 {
		return nil, nil
	}
	s := struck(d)
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(strings.Split(columns, ","), name) })
	for i := range s.Nemeses {
		fmt.Fprintf(say, "struck: %s\n", s.Nemeses[i].Name)
		if err := strike(ctx, self, s, &s.Nemeses[i], names); err != nil {
			return nil, err
		}
	}
	return s, nil
}
