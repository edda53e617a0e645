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
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/termline"
)

// runFlags are the flags of run. Those that config parses are text.
type runFlags struct {
	driver, image, servers, nemesis, workload, persistence string
	client, library, other, mutant, nodes, allow           string
	yes                                                    bool
	masters, clients, atOnce, leastFaults, leastLocks      int
	duration, ttl, maxTTL                                  time.Duration
	seed                                                   uint64
	files                                                  files
	given                                                  func(name string) bool // whether the command line has that flag
}

func defineRun(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	var f runFlags
	f.bind(fs)
	return f.run
}

// bind defines the flags.
func (f *runFlags) bind(fs *flag.FlagSet) {
	f.given = func(name string) (yes bool) {
		fs.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
		return yes
	}
	fs.StringVar(&f.driver, "driver", "", "`NAME` docker, process or sim; default docker if an engine answers, else process")
	fs.StringVar(&f.image, "image", "", "`NAME` of the docker image; default $REDLOCK_REDIS_IMAGE or redis:7, else an image made of the installed redis-server")
	fs.StringVar(&f.servers, "servers", "", "`FILE,..` redis-server or valkey-server programs for --driver process, which masters take in turn; default the redis-server in PATH")
	fs.StringVar(&f.nodes, "nodes", "", "`URL,..` masters of your own, 3 or more: redis://user:password@host:port/db. The run says what it will do there, and asks")
	fs.StringVar(&f.allow, "allow", "", "`NAME,..` nemeses that may strike your masters: "+strings.Join(chaos.Allowable(), ", "))
	fs.BoolVar(&f.yes, "yes", false, "do not ask before --nodes are used")
	fs.StringVar(&f.nemesis, "nemesis", "default", "`NAME,..` nemeses; default: those under which exclusion and tokens are promised; all: also those that suspend exclusion while they last")
	fs.StringVar(&f.workload, "workload", "all", "`NAME,..` how clients use locks")
	fs.StringVar(&f.persistence, "persistence", "none", "`WHAT` masters keep on disk: none, everysec or always")
	fs.StringVar(&f.client, "client", "", "`FILE` a program of your own to run as the clients, as docs/history.md says; default this program")
	fs.StringVar(&f.library, "lock", "", "`NAME` of the library that the program of --client uses, if it knows several, as chaos/peers does")
	fs.StringVar(&f.other, "other", "", "`FILE` another build of redlock-bench, or of the program of --client, for the nemesis rolling-upgrade")
	fs.StringVar(&f.mutant, "mutant", "", "`NAME` of a defence that the clients are without; only in a build with -tags mutants")
	fs.IntVar(&f.masters, "masters", 5, "`N` masters, odd")
	fs.IntVar(&f.clients, "clients", 3, "`N` client processes")
	fs.IntVar(&f.atOnce, "at-once", 2, "`N` nemeses strike at the same time")
	fs.DurationVar(&f.ttl, "ttl", 600*time.Millisecond, "`TIME` that a lock is granted for, 30s at most")
	fs.DurationVar(&f.maxTTL, "max-ttl", time.Second, "`TIME` that a lock may be granted for at most, which a master that lost its data waits; 1m at most, unless with --driver sim")
	fs.IntVar(&f.leastFaults, "least-faults", 0, "`N` faults, until which the run goes on, for at most another duration and 30 s; fewer are a violation of effort")
	fs.IntVar(&f.leastLocks, "least-locks", 0, "`N` locks granted under faults, until which the run goes on, for at most another minute; fewer are a violation of effort")
	fs.DurationVar(&f.duration, "duration", 30*time.Second, "`TIME` of the faults; the start, the aftermath and the checks come on top")
	fs.Uint64Var(&f.seed, "seed", 0, "`N` of every random choice; 0 draws a seed and prints it")
	f.files.define(fs)
}

// config checks the flags and returns the Config that they say.
func (f *runFlags) config() (chaos.Config, error) {
	cfg := chaos.Config{Image: f.image, Masters: f.masters, Clients: f.clients, Duration: f.duration, Seed: f.seed, Mutant: f.mutant,
		AtOnce: f.atOnce, TTL: f.ttl, MaxTTL: f.maxTTL, LeastFaults: f.leastFaults, LeastLocks: f.leastLocks}
	var err error
	if cfg.Driver, err = parseDriver(f.driver, f.image, f.servers); err != nil {
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
	case f.atOnce < 1 || f.atOnce > 10:
		return cfg, usagef("--at-once %d: want 1 to 10", f.atOnce)
	case f.leastFaults < 0 || f.leastLocks < 0:
		return cfg, usagef("--least-faults %d, --least-locks %d: want 0 or more", f.leastFaults, f.leastLocks)
	}
	if err := f.checkTimes(cfg.Driver); err != nil {
		return cfg, err
	}
	if err := f.programsOfClients(&cfg); err != nil {
		return cfg, err
	}
	if err := checkMutant(f.mutant); err != nil {
		return cfg, err
	}
	if cfg.Servers, err = f.programs(cfg.Driver); err != nil {
		return cfg, err
	}
	if err := f.ownNodes(&cfg); err != nil {
		return cfg, err
	}
	lacks := func(n nemesis.Nemesis) string { return n.Lacks(cfg.Has()) }
	if cfg.Driver == chaos.Sim {
		if err := f.simulated(); err != nil {
			return cfg, err
		}
		lacks = lacksSim
	}
	if cfg.Nemeses, err = nemesis.Parse(f.nemesis, lacks); err != nil {
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

// programsOfClients checks --client, --lock and --other.
func (f *runFlags) programsOfClients(cfg *chaos.Config) error {
	switch {
	case f.other != "" && !executable(f.other):
		return usagef("--other %s: want a redlock-bench that can be executed, as go build -o FILE ./cmd/redlock-bench makes it", f.other)
	case f.client != "" && !executable(f.client):
		return usagef("--client %s: want a program that can be executed and that does what docs/history.md says", f.client)
	case f.client != "" && f.given("workload"):
		return usagef("--workload does not apply to --client: its program decides what it does")
	case f.client == "" && f.library != "":
		return usagef("--lock %s: this program knows no other library. Those of chaos/peers are tested with: go run -C chaos/peers . --lock %s", f.library, f.library)
	}
	cfg.Library = f.library
	for path, file := range map[*string]string{&cfg.Client: f.client, &cfg.Other: f.other} {
		if file == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(file); err != nil { // a name without a folder would be looked up in PATH
			return usageError{err}
		}
	}
	return nil
}

// programs returns the files of --servers.
func (f *runFlags) programs(driver cluster.Driver) ([]string, error) {
	if f.servers == "" || driver == chaos.Sim {
		return nil, nil
	}
	if driver == cluster.Docker {
		return nil, usagef("--servers names programs of this machine, and --driver docker runs an image: use --driver process, or --image")
	}
	var paths []string
	for file := range strings.SplitSeq(f.servers, ",") {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, usageError{err}
		}
		if !executable(path) {
			return nil, usagef("--servers %s: want programs that can be executed, as .ci/servers puts them here", file)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// simulated returns an error if a flag is given that does not apply to the simulation.
func (f *runFlags) simulated() error {
	for _, flag := range []struct{ name, why string }{
		{"image", "its masters are in memory"},
		{"servers", "its masters are in memory"},
		{"persistence", "the seed decides what its masters keep"},
		{"workload", "it has one of its own"},
		{"at-once", "the seed decides how many strike"},
		{"ttl", "its workers choose"},
		{"least-faults", "the seed decides"},
		{"least-locks", "the seed decides"},
		{"other", "all its clients are of this build"},
		{"client", "its clients are in memory"},
		{"mutant", "go test -tags mutants ./internal/sim hunts mutants there"},
		{"nodes", "its masters are in memory"},
	} {
		if f.given(flag.name) {
			return usagef("--%s does not apply to --driver sim: %s", flag.name, flag.why)
		}
	}
	return nil
}

// lacksSim says why the simulation cannot have a nemesis; "" if it can.
func lacksSim(n nemesis.Nemesis) string {
	names := chaos.SimNemeses()
	if slices.Contains(names, n.Name) {
		return ""
	}
	slices.SortFunc(names, history.CompareNemeses)
	return "the simulation has " + strings.Join(names, ", ")
}

// replay returns the command that repeats the run.
func (f *runFlags) replay(driver cluster.Driver, seed uint64) string {
	names := strings.Split(f.nemesis, ",")
	for i, name := range names {
		names[i], _ = history.NemesisName(strings.TrimSpace(name))
	}
	s := fmt.Sprintf("redlock-bench chaos --seed %d --duration %v --clients %d --nemesis %s", seed, f.duration, f.clients, strings.Join(names, ","))
	if f.nodes == "" {
		s += fmt.Sprintf(" --masters %d", f.masters)
	}
	if driver != chaos.Sim {
		if f.nodes == "" {
			s += " --persistence " + f.persistence
		}
		if f.client == "" {
			s += " --workload " + f.workload
		}
		s += fmt.Sprintf(" --at-once %d --ttl %v", f.atOnce, f.ttl)
	}
	s += fmt.Sprintf(" --max-ttl %v", f.maxTTL)
	for _, more := range []struct {
		flag  string
		value int
	}{{"least-faults", f.leastFaults}, {"least-locks", f.leastLocks}} {
		if more.value > 0 {
			s += fmt.Sprintf(" --%s %d", more.flag, more.value)
		}
	}
	if driver != cluster.Auto {
		s += " --driver " + string(driver)
	}
	for _, more := range []struct{ flag, value string }{{"image", f.image}, {"servers", f.servers}, {"nodes", redactAll(f.nodes)}, {"allow", f.allow}, {"client", f.client}, {"lock", f.library}, {"other", f.other}, {"mutant", f.mutant}} {
		if more.value != "" {
			s += fmt.Sprintf(" --%s %s", more.flag, more.value)
		}
	}
	return s
}

func (f *runFlags) run(ctx context.Context, c *console, _ []string) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if len(cfg.Nodes) > 0 {
		if err := f.announce(ctx, c, cfg); err != nil {
			return err
		}
	}
	if err := f.files.open(); err != nil {
		return err
	}
	defer f.files.close()
	p := termline.New(c.err)
	cfg.Out, cfg.Replay = above{p, c.err}, f.replay(cfg.Driver, cfg.Seed)
	cfg.Progress = func(now chaos.Progress) { p.Show("%s", line(now, f.duration)) }
	cfg.Report = func(o chaos.Outcome) (err error) {
		p.Clear()
		if !o.Result.Held() {
			err = keep(c, cfg.Seed, o)
		}
		return errors.Join(err, f.files.write(c, o.Result, o.History, o.Checks, nil))
	}
	fmt.Fprintf(c.err, "seed %d; again: %s\n", cfg.Seed, cfg.Replay)
	if cfg.Driver != chaos.Sim {
		sweep(ctx, c)
		if p.Shows() {
			fmt.Fprintln(c.err, legend)
		}
	}
	res, err := chaos.Run(ctx, cfg)
	p.Clear()
	if res == nil {
		return err
	}
	if f.files.json != "-" {
		c.summary(res)
	}
	return c.end(res.Held(), err)
}

// sweep removes the containers, processes and files of killed runs.
func sweep(ctx context.Context, c *console) {
	gone, err := leftover.Sweep(ctx)
	if len(gone) > 0 {
		fmt.Fprintf(c.err, "removed the remains of a killed run: %s\n", strings.Join(gone, ", "))
	}
	if err != nil && !errors.Is(err, leftover.ErrNoEngine) {
		fmt.Fprintf(c.err, "some remains of killed runs could not be removed: %v\n", err)
	}
}

func (c *console) summary(res *chaos.Result) {
	total := 0
	for _, n := range res.Faults {
		total += n
	}
	fmt.Fprintf(c.out, "driver        %s, seed %d\n", res.Driver, res.Seed)
	fmt.Fprintf(c.out, "versions      %s\n", versionLine(res.Versions))
	fmt.Fprintf(c.out, "acquisitions  %d, of which %d under faults\n", res.Acquisitions, res.UnderFaults)
	fmt.Fprintf(c.out, "faults        %d in %.1f s\n", total, res.Duration)
	fmt.Fprintf(c.out, "availability  locks were granted in %.1f %% of the half seconds under faults", 100*res.Availability)
	if res.Recovery > 0 { // else there were no faults, or a lock was never granted again
		fmt.Fprintf(c.out, "; after the last, each was granted within %.0f ms", res.Recovery)
	}
	fmt.Fprintln(c.out)
	c.registers(res)
	c.costs(res.Nemeses)
	if n := res.NotJudged; n.Time > 0 {
		fmt.Fprintf(c.out, "not judged    exclusion, for %.1f s of %.1f s, under %s; overlaps in that time: %d\n", n.Time, n.Of,
			suspenders(n.Nemeses), n.Overlaps)
	}
	for _, v := range res.Violations {
		fmt.Fprintf(c.out, "VIOLATION     %s: %s\n", v.Checker, v.Detail)
	}
	switch {
	case res.Held():
		fmt.Fprintln(c.out, "every promise held")
	case res.TooLittle():
		fmt.Fprintln(c.out, "too short     nothing wrong was found, but the run did too little to show anything: give a longer --duration")
	}
}

// registers prints how many updates were lost in the registers that were written.
func (c *console) registers(res *chaos.Result) {
	var lost []string
	if res.Unfenced != nil {
		lost = append(lost, fmt.Sprintf("%.1f %% without fencing tokens, as is to be expected", 100**res.Unfenced))
	}
	if res.Fenced != nil {
		lost = append(lost, fmt.Sprintf("%.1f %% with fencing tokens", 100**res.Fenced))
	}
	if len(lost) > 0 {
		fmt.Fprintf(c.out, "registers     updates lost: %s\n", strings.Join(lost, "; "))
	}
}

// suspenders is "step-clock (3.1 s), skew-clocks (2.0 s)".
func suspenders(nemeses map[string]float64) string {
	var s []string
	for _, name := range slices.SortedFunc(maps.Keys(nemeses), history.CompareNemeses) {
		s = append(s, fmt.Sprintf("%s (%.1f s)", name, nemeses[name]))
	}
	return strings.Join(s, ", ")
}

// costs prints how much service each nemesis cost.
func (c *console) costs(nemeses map[string]chaos.Impact) {
	if len(nemeses) == 0 {
		return
	}
	after := func(ms float64) string {
		if ms == 0 { // it was not seen
			return "-"
		}
		return fmt.Sprintf("%.0f ms", ms)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "nemesis\tfaults\tat work\tlocks granted in\tnext grant after\tat worst\tmasters back after\tfree lock granted in\t")
	for _, n := range slices.SortedFunc(maps.Keys(nemeses), history.CompareNemeses) {
		i := nemeses[n]
		service := "-"
		if i.ServiceOf > 0 {
			service = fmt.Sprintf("%.0f %% of %d", 100*i.Service, i.ServiceOf)
		}
		fmt.Fprintf(t, "%s\t%d\t%.1f s\t%.0f %%\t%s\t%s\t%s\t%s\t\n", n, i.Faults, i.Lasted, 100*i.Availability, after(i.Recovery), after(i.Longest), after(i.Masters), service)
	}
	_ = t.Flush() // like the lines above, it ignores errors of the output
}

// versionLine is "go go1.26, redis 7.0.15".
func versionLine(versions map[string]string) string {
	var vs []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		vs = append(vs, name+" "+versions[name])
	}
	return strings.Join(vs, ", ")
}
