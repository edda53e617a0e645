// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
)

// runFlags is the flags of run, as text where the text needs judging.
type runFlags struct {
	driver, image, nemesis, workload, persistence string
	masters, clients                              int
	duration                                      time.Duration
	seed                                          uint64
	files                                         files
}

func defineRun(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	var f runFlags
	fs.StringVar(&f.driver, "driver", "", "`NAME` docker, process or sim; docker where an engine answers, else process")
	fs.StringVar(&f.image, "image", "", "`NAME` of the docker image; $REDLOCK_REDIS_IMAGE or redis:7, else one made of the installed redis-server")
	fs.StringVar(&f.nemesis, "nemesis", "default", "`NAME,..` what goes wrong; default: all that must break nothing; all: also what may break exclusion")
	fs.StringVar(&f.workload, "workload", "all", "`NAME,..` how locks are used")
	fs.StringVar(&f.persistence, "persistence", "none", "`WHAT` masters keep: none, everysec or always")
	fs.IntVar(&f.masters, "masters", 5, "`N` masters, odd")
	fs.IntVar(&f.clients, "clients", 3, "`N` client processes")
	fs.DurationVar(&f.duration, "duration", 30*time.Second, "`TIME` of the faults; start, heal and checks come on top")
	fs.Uint64Var(&f.seed, "seed", 0, "`N` of every choice; 0 draws one and says which")
	f.files.define(fs)
	return f.run
}

// config judges the flags.
func (f *runFlags) config() (chaos.Config, error) {
	cfg := chaos.Config{Image: f.image, Masters: f.masters, Clients: f.clients, Duration: f.duration, Seed: f.seed}
	var err error
	if cfg.Driver, err = parseDriver(f.driver); err != nil {
		return cfg, err
	}
	switch f.persistence {
	case "none":
	case string(cluster.EverySec), string(cluster.Always):
		cfg.Persistence = cluster.Persistence(f.persistence)
	default:
		return cfg, usagef("--persistence %q: want none, everysec or always", f.persistence)
	}
	switch {
	case f.masters < 3 || f.masters > 15 || f.masters%2 == 0:
		return cfg, usagef("--masters %d: want an odd number from 3 to 15", f.masters)
	case f.clients < 2 || f.clients > 20:
		return cfg, usagef("--clients %d: want 2 to 20", f.clients)
	case f.duration < time.Second:
		return cfg, usagef("--duration %v: want a second or more", f.duration)
	}
	if cfg.Nemeses, err = nemesis.Parse(f.nemesis, func(n nemesis.Nemesis) string { return n.Lacks(cfg.Persistence) }); err != nil {
		return cfg, usagef("--nemesis: %w", err)
	}
	if cfg.Workloads, err = workload.ParseKinds(f.workload); err != nil {
		return cfg, usagef("--workload: %w", err)
	}
	if cfg.Seed == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		cfg.Seed = uint64(binary.BigEndian.Uint32(b[:])) + 1
	}
	return cfg, nil
}

// replay is the command that does the run again.
func (f *runFlags) replay(driver cluster.Driver, seed uint64) string {
	s := fmt.Sprintf("redlock-bench chaos --seed %d --duration %v --masters %d --clients %d --persistence %s --nemesis %s --workload %s",
		seed, f.duration, f.masters, f.clients, f.persistence, f.nemesis, f.workload)
	if driver != cluster.Auto {
		s += " --driver " + string(driver)
	}
	return s
}

func (f *runFlags) run(ctx context.Context, c *console, _ []string) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if err := f.files.open(); err != nil {
		return err
	}
	defer f.files.close()
	p := newProgress(c.err)
	cfg.Out, cfg.Replay, cfg.Versions = c.err, f.replay(cfg.Driver, cfg.Seed), versions()
	cfg.Progress = func(now chaos.Progress) { p.show("%s", line(now, f.duration)) }
	var out chaos.Outcome
	cfg.Report = func(o chaos.Outcome) error { out = o; return nil }
	fmt.Fprintf(c.err, "seed %d; again: %s\n", cfg.Seed, cfg.Replay)
	sweep(ctx, c)
	res, err := chaos.Run(ctx, cfg)
	p.clear()
	if err != nil {
		return err
	}
	if !res.Held() {
		f.files.nameMissing(fmt.Sprintf("redlock-chaos-%d", cfg.Seed))
	}
	if err := f.files.write(c, res, out.History, out.Checks); err != nil {
		return err
	}
	return c.verdict(res, f.files.json == "-")
}

// versions is what is under test.
func versions() map[string]string { return map[string]string{"go": runtime.Version()} }

// sweep removes what killed runs left behind.
func sweep(ctx context.Context, c *console) {
	gone, err := cluster.Sweep(ctx)
	if len(gone) > 0 {
		fmt.Fprintf(c.err, "removed what a killed run had left: %s\n", strings.Join(gone, ", "))
	}
	if err != nil && !errors.Is(err, cluster.ErrNoEngine) {
		fmt.Fprintf(c.err, "not all that killed runs have left could be removed: %v\n", err)
	}
}

// verdict prints a result for people, on stdout unless JSON goes there.
func (c *console) verdict(res *chaos.Result, quiet bool) error {
	if !quiet {
		faults := make([]string, 0, len(res.Faults))
		total := 0
		for _, n := range slices.SortedFunc(maps.Keys(res.Faults), byNumber) {
			faults = append(faults, fmt.Sprintf("%s %d", n, res.Faults[n]))
			total += res.Faults[n]
		}
		fmt.Fprintf(c.out, "driver        %s, seed %d\n", res.Driver, res.Seed)
		fmt.Fprintf(c.out, "acquisitions  %d\n", res.Acquisitions)
		fmt.Fprintf(c.out, "faults        %d: %s\n", total, strings.Join(faults, ", "))
		fmt.Fprintf(c.out, "availability  %.1f %% of the time under faults, all locks back %.0f ms after them\n", 100*res.Availability, res.Recovery)
		fmt.Fprintf(c.out, "without fence %.1f %% of updates lost, as is to be expected\n", 100*res.Unfenced)
		for _, v := range res.Violations {
			fmt.Fprintf(c.out, "VIOLATION     %s: %s\n", v.Checker, v.Detail)
		}
		if res.Held() {
			fmt.Fprintln(c.out, "every promise held")
		}
	}
	if !res.Held() {
		return errViolation
	}
	return nil
}

// byNumber orders N2 before N10.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
