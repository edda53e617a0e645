// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/gate/scan"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

// A stage is a list of commands that run one after the other. Stages of one group run at the same time.
type stage struct {
	name     string
	commands []command
}

// A gate knows the repository and runs stages of it.
type gate struct {
	root  string
	tests []scan.Test
	res   *results
}

// timeout bounds the tests of a package: what takes four minutes took ten beside two busy loops.
const timeout = "20m"

// goTest is a call of go test in the tier, in the root module. Without the tables for a debugger sixty test programs are linked in a third less
// time, and without symbols in a twentieth less again. A stack trace says as much.
func goTest(tier needs.Tier, args ...string) command {
	return command{
		args: append([]string{"go", "test", "-json", "-count=1", "-vet=off", "-ldflags=-s -w", "-timeout", timeout}, args...),
		env:  []string{needs.TierVar + "=" + tier.String()}, json: true,
	}
}

// selected is goTest for some tests only: none if there are none.
func selected(tier needs.Tier, tests []scan.Test, flags ...string) []command {
	if len(tests) == 0 {
		return nil
	}
	return []command{goTest(tier, append(append(flags, "-run", scan.Pattern(tests)), longestFirst(scan.Packages(tests))...)...)}
}

// nice are the commands, each of which lets what is about time go first.
func nice(commands []command) []command {
	for i := range commands {
		commands[i].args = append([]string{"nice"}, commands[i].args...)
	}
	return commands
}

func root(f scan.Test) bool { return f.Module == "." && strings.HasPrefix(f.Name, "Test") }

// raced are the flags of tests with the race detector. The Lua interpreter of the masters in memory starts no goroutine, and a script runs with
// its master's mutex held: what the detector would record of it is a quarter of the time of the simulations. Regular expressions are of the
// standard library, and without the detector the tests of the pages take 3 s and not 20. So is the parser of Go, for the tests that read the sources.
var raced = []string{"-race", "-gcflags=github.com/yuin/gopher-lua/...=-race=false", "-gcflags=regexp/...=-race=false", "-gcflags=go/...=-race=false"}

// longest are the packages whose tests take the longest, in that order. Begun in their turn they would run alone at the end.
var longest = []string{"./redlock", "./chaos", "./internal/sim"}

// longestFirst puts those of the longest that are in pkgs ahead of the others.
func longestFirst(pkgs []string) []string {
	of := func(pkg string) int {
		if i := slices.Index(longest, pkg); i >= 0 {
			return i
		}
		return len(longest)
	}
	slices.SortStableFunc(pkgs, func(a, b string) int { return of(a) - of(b) })
	return pkgs
}

// compiled compiles packages as go test with these flags will, and leaves the linking to it. What was compiled before costs seconds.
func compiled(dir string, flagsAndPackages ...string) command {
	return command{name: "compile", dir: dir, args: append([]string{"go", "list", "-test", "-deps", "-export", "-f", `{{""}}`}, flagsAndPackages...)}
}

// builds are what tests of make test build by themselves, by their package. ./chaos builds an earlier commit in a folder of its own: without paths in
// it, so that only what changed since is compiled again.
var builds = map[string]command{
	"./chaos":         compiled("", "-trimpath", "./chaos/workload"),
	"./chaos/mutants": {name: "compile", args: []string{"go", "build", "-tags", "mutants", "-o", os.DevNull, "./cmd/redlock-bench"}},
	"./cmd/redlock":   command{name: "compile", args: []string{"go", "build", "-trimpath", "-o", os.DevNull, "./cmd/redlock"}}.on(runtime.GOOS, runtime.GOARCH),
}

// compile is the group before all others: a test that is about time and runs beside a compiler is red by chance. On a machine that has
// compiled nothing it takes minutes, as downloads do.
func (g *gate) compile() []stage {
	s := stage{"compile", []command{compiled("", slices.Concat(raced, []string{"./..."}, g.halves())...), compiled("", "./...")}}
	if pkgs := scan.Packages(slices.Concat(g.mutants(needs.TierTest), g.mutants(needs.TierCI))); len(pkgs) > 0 {
		s.commands = append(s.commands, compiled("", append([]string{"-tags", "mutants"}, pkgs...)...))
	}
	for _, pkg := range scan.Packages(scan.Pick(g.tests, root)) {
		if c, ok := builds[pkg]; ok {
			s.commands = append(s.commands, c)
		}
	}
	return []stage{s}
}

// mutants are the tests that break the lock on purpose: those of make test, or those that .ci/run has besides.
func (g *gate) mutants(tier needs.Tier) []scan.Test {
	return scan.Pick(g.tests, func(f scan.Test) bool {
		return root(f) && f.Tags == "mutants" && !f.Calls("Soak") && f.Calls("CI", "Java", "Server") == (tier == needs.TierCI)
	})
}

// broken runs these tests.
func (g *gate) broken(tier needs.Tier) []command {
	return seldomCollected(nice(selected(tier, g.mutants(tier), "-p", "1", "-tags", "mutants")))
}

// seldomCollected are the commands with less work for the collector: the heaps of simulations are small, and their garbage is much. It is a
// tenth of the time of models, too, whose heaps are then 1 GB and not half of that.
func seldomCollected(commands []command) []command {
	for i := range commands {
		commands[i].env = append(commands[i].env, "GOGC=400")
	}
	return commands
}

// testStages are those of make test. What needs servers is about time: it waits much, and has the machine for itself. What only computes has what that
// leaves, until the end: in groups one after the other, each had processors without work at its end. To run all at once was tried, and is no faster.
func (g *gate) testStages() [][]stage {
	noRace := func(servers bool) []scan.Test {
		return scan.Pick(g.tests, func(f scan.Test) bool {
			return root(f) && f.Tags == "" && f.Calls("NoRace") && !f.Calls("CI", "Java", "Server", "Soak") && f.Calls("Redis", "EveryServer", "Cluster") == servers
		})
	}
	patterns := slices.DeleteFunc(slices.Clone(longest), func(pkg string) bool {
		return !slices.ContainsFunc(g.tests, func(f scan.Test) bool { return root(f) && f.Pkg == pkg })
	})
	// Many of these wait for servers and for time-outs most of the time.
	waits := []string{"-p", "3", "-parallel", "4"}
	race := goTest(needs.TierTest, slices.Concat(raced, waits, patterns, []string{"./..."}, g.halves())...)
	// By itself a program with the race detector waits for a second before it ends.
	race.env = append(race.env, "GORACE=atexit_sleep_ms=10")
	return [][]stage{
		g.compile(),
		{{"with the race detector, then without", seldomCollected(append([]command{race}, selected(needs.TierTest, noRace(true), waits...)...))},
			{"mutants, and what computes", append(seldomCollected(nice(selected(needs.TierTest, noRace(false)))), g.broken(needs.TierTest)...)}},
	}
}

// modules are the folders of the nested modules.
func (g *gate) modules() (dirs []string) {
	for _, f := range g.tests {
		if f.Module != "." && !slices.Contains(dirs, f.Module) {
			dirs = append(dirs, f.Module)
		}
	}
	return dirs
}

// halves are the packages of nested modules below a folder internal: tests of packages of the root whose libraries nobody who requires the root
// should have to require. They are run with the root's.
func (g *gate) halves() (patterns []string) {
	for _, dir := range g.modules() {
		if half(dir) {
			patterns = append(patterns, "./"+dir+"/...")
		}
	}
	return patterns
}

func half(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "internal") }

// ciStages are what .ci/run has besides make test. What waits for servers most of the time goes first; models, mutants,
// lint and fuzz have what that leaves.
func (g *gate) ciStages() ([][]stage, error) {
	inCI := func(models bool) []scan.Test {
		return scan.Pick(g.tests, func(f scan.Test) bool {
			return root(f) && f.Tags == "" && f.Calls("CI", "Java", "Server") && !f.Calls("Soak") && strings.HasPrefix(f.Pkg, "./internal/model/") == models
		})
	}
	servers, err := g.serverStage()
	if err != nil {
		return nil, err
	}
	modules, compile := stage{name: "nested modules"}, stage{"compile", []command{compiled("", "./...").oldest(),
		command{name: "compile", args: []string{"go", "build", "-o", os.DevNull, "./cmd/redlock"}}.on("windows", "amd64"), compiled("", platform386...).on("linux", "386"),
		compiled("", "-tags", "mutants", "./chaos/chaoscli", "./node/..."), // lint looks at these
		named(goTest(needs.TierCI, "-run", "^TestOrder_simulations", "./internal/lockorder", "-compile"), "compile")}}
	for _, dir := range slices.DeleteFunc(g.modules(), half) {
		compile.commands = append(compile.commands, compiled(filepath.Join(g.root, dir), "./..."))
		c := goTest(needs.TierCI, "-p", "1", "./...")
		c.dir = filepath.Join(g.root, dir)
		modules.commands = append(modules.commands, c)
	}
	for _, pkg := range scan.Packages(scan.Pick(g.tests, func(f scan.Test) bool { return strings.HasPrefix(f.Name, "Fuzz") })) { // with what counts coverage in it: nobody else compiles that
		compile.commands = append(compile.commands, command{name: "compile", args: []string{"go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-fuzz", ".", "-o", os.DevNull, pkg}})
	}
	return [][]stage{
		{compile},
		{{"Java, and what is for CI", selected(needs.TierCI, inCI(false))}, servers, {"models", seldomCollected(nice(selected(needs.TierCI, inCI(true))))},
			{"mutants", g.broken(needs.TierCI)}, {"lint", nice([]command{{name: "lint", args: []string{"make", "lint"}}})}, modules, {"fuzz", nice(g.fuzz("1000x"))}},
		{{"bench", []command{{name: "bench", args: []string{".ci/bench-check"}}}}},
	}, nil
}

// fuzz runs each fuzz target for as long as each says, or as often: in the gate, because a target whose time is over before it has tried what it
// found in earlier runs is red.
func (g *gate) fuzz(each string) (commands []command) {
	for _, f := range g.tests {
		if strings.HasPrefix(f.Name, "Fuzz") {
			commands = append(commands, named(goTest(needs.TierCI, "-run", "^$", "-fuzz", "^"+f.Name+"$", "-fuzztime", each, "-parallel", "2", f.Pkg), f.Name))
		}
	}
	return commands
}

// named makes a command without events of its result, by that name: go test -fuzz has no event for a target that found nothing.
func named(c command, name string) command {
	c.name, c.json = name, false
	c.args = slices.DeleteFunc(c.args, func(a string) bool { return a == "-json" })
	return c
}

// oldest is c with the libraries that the root's go.mod names, the oldest that will do. Without it go.work takes the newest that are tested.
func (c command) oldest() command {
	c.env = append(slices.Clone(c.env), "GOWORK=off")
	return c
}

// platform386 are the packages that a test of cmd/redlock runs as programs of 32 bits. It links the command for Windows, too.
var platform386 = []string{"./clock", "./internal/protocol", "./redlocktest"}

// on is c for a platform.
func (c command) on(system, arch string) command {
	c.env = append(slices.Clone(c.env), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	return c
}

// serverStage runs what depends on the server against each other version, with the oldest libraries, and chaos on masters of all versions at
// once. A server that is missing is left out, or an error where it is required.
func (g *gate) serverStage() (stage, error) {
	s := stage{name: "servers of other versions"}
	tests := scan.Pick(g.tests, func(f scan.Test) bool {
		return root(f) && f.Tags == "" && f.Calls("EveryServer") && !f.Calls("Soak", "CI")
	})
	must, err := needs.ParseRequire(os.Getenv(needs.RequireVar))
	if err != nil {
		return s, err
	}
	own, _ := exec.LookPath("redis-server")
	all := []string{own}
	for _, name := range []string{"redis-6.2", "redis-8.0", "valkey-8.1"} {
		dir := filepath.Join(needs.ServersDir(), name)
		if err := exec.Command(filepath.Join(dir, "redis-server"), "--version").Run(); err != nil {
			if slices.Contains(must, "servers") {
				return s, fmt.Errorf("server %s is missing, and %s=%s says that it must be there: %w: .ci/servers fetches it",
					name, needs.RequireVar, os.Getenv(needs.RequireVar), err)
			}
			g.res.say("left out: server %s is missing: .ci/servers fetches it\n", name)
			continue
		}
		all = append(all, filepath.Join(dir, "redis-server"))
		for _, c := range selected(needs.TierTest, tests) {
			c.env = append(c.env, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			s.commands = append(s.commands, c.oldest())
		}
	}
	if len(all) > 1 {
		list := strings.Join(all, ",")
		chaos := []string{"go", "run", "./cmd/redlock-bench", "chaos", "--servers", list}
		s.commands = append(s.commands,
			command{name: "chaos on masters of all versions", args: append(slices.Clone(chaos), "--duration", "15s", "--seed", "1")},
			command{name: "masters that are upgraded", args: append(slices.Clone(chaos), "--nemesis", "upgrade-server", "--persistence", "everysec", "--duration", "8s", "--seed", "2")})
	}
	return s, nil
}

// runAll runs groups one after the other, and what is in a group at the same time. It goes on after a red stage. At the end it runs again what
// was held up.
func (g *gate) runAll(ctx context.Context, groups [][]stage) error {
	if err := g.runGroups(ctx, groups); err != nil {
		return err
	}
	return g.alone(ctx)
}

func (g *gate) runGroups(ctx context.Context, groups [][]stage) error {
	for _, group := range groups {
		var wg sync.WaitGroup
		errs := make([]error, len(group))
		for i, s := range group {
			if len(s.commands) == 0 {
				continue
			}
			g.res.begin(s.name)
			wg.Go(func() {
				for _, c := range s.commands {
					if c.dir == "" {
						c.dir = g.root
					}
					if c.json {
						c.env = append(slices.Clone(c.env), stall.TriesVar+"="+stall.FirstTries)
					}
					if errs[i] == nil && ctx.Err() == nil {
						errs[i] = g.res.run(ctx, s.name, c)
					}
				}
			})
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				return fmt.Errorf("%s: %w", group[i].name, err)
			}
		}
	}
	return ctx.Err()
}
