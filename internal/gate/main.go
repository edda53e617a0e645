// SPDX-License-Identifier: Apache-2.0

// Command gate runs the tests of this repository, tier by tier, and prints a table of what was judged.
//
//	gate test                    what make test runs
//	gate compile                 compiles what test and ci run: where nothing was compiled, that takes minutes
//	gate ci                      what .ci/run runs besides make test
//	gate flaky -n 10 -load 2     make test ten times beside two busy loops: what was ever red
//	gate hunt -budget 10m        all random tests in turn, with new seeds
//	gate soak -budget 1h         what takes hours, and hunts; it says at the end what it did not reach
//	gate list                    each test function with what it needs
//
// It ends with 0 if all was green, with 1 if something was red, and with 2 if it was called wrongly or could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/gate/scan"
	"github.com/redlock-go/redlock/internal/needs"
)

// options are the flags of all commands.
type options struct {
	n, load int
	tier    string
	budget  time.Duration
	only    string
	dir     string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == spinWord {
		spin()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, out io.Writer) (code int, err error) {
	var o options
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.n, "n", 10, "flaky: how often the tier runs")
	flags.IntVar(&o.load, "load", 2, "flaky: how many busy loops run beside it")
	flags.StringVar(&o.tier, "tier", "test", "flaky: quick, test or ci")
	flags.DurationVar(&o.budget, "budget", time.Hour, "hunt, soak: how long they may take")
	flags.StringVar(&o.only, "only", "", "hunt: only tests whose name or package has this in it")
	flags.StringVar(&o.dir, "dir", "", "flaky, soak: where logs go (default: flaky, soak)")
	if len(args) == 0 {
		return 2, errors.New("want one of test, compile, ci, flaky, hunt, soak, list")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return 2, err
	}
	if flags.NArg() > 0 {
		return 2, fmt.Errorf("%q: want flags only after %s", flags.Arg(0), args[0])
	}
	if o.n < 1 || o.load < 0 || o.budget <= 0 {
		return 2, fmt.Errorf("-n %d -load %d -budget %v: want at least 1, 0 and more than 0", o.n, o.load, o.budget)
	}
	g, err := open(out)
	if err != nil {
		return 2, err
	}
	green, err := g.do(ctx, args[0], o)
	switch {
	case err != nil:
		return 2, err
	case !green:
		return 1, nil
	}
	return 0, nil
}

// open finds the repository that the program stands in.
func open(out io.Writer) (*gate, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for root := here; ; root = filepath.Dir(root) {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			tests, err := scan.Tests(root)
			return &gate{root: root, tests: tests, res: newResults(out)}, err
		}
		if root == filepath.Dir(root) {
			return nil, fmt.Errorf("%s is not in a checkout of %s", here, module)
		}
	}
}

// do runs one command, and reports whether all was green.
func (g *gate) do(ctx context.Context, what string, o options) (green bool, err error) {
	switch what {
	case "test", "quick", "ci", "compile":
		groups, err := g.groups(what)
		if err != nil {
			return false, err
		}
		if groups[0][0].name == "compile" && what != "compile" && os.Getenv(compiledVar) != "" {
			groups = groups[1:]
		}
		err = g.runAll(ctx, groups)
		return g.res.print(what) && err == nil, err
	case "flaky":
		return g.flaky(ctx, o)
	case "hunt":
		return g.hunt(ctx, o)
	case "soak":
		return g.soak(ctx, o)
	case "list":
		for _, f := range g.tests {
			g.res.say("%s\t%s\t%s\t%s\tseeds=%v\n", f.Pkg, f.Name, f.Tags, strings.Join(f.Needs, ","), f.Seeds)
		}
		return true, nil
	}
	return false, fmt.Errorf("%q: want one of test, compile, ci, flaky, hunt, soak, list", what)
}

const compiledVar = "REDLOCK_COMPILED" // is set by .ci/run, which has had the gate compile before

// groups returns the stages of a tier by its name, or what test and ci compile.
func (g *gate) groups(name string) ([][]stage, error) {
	if name == "compile" {
		ci, err := g.ciStages()
		if err != nil {
			return nil, err
		}
		return [][]stage{g.compile(), ci[0]}, nil
	}
	tier, err := needs.ParseTier(name)
	if err != nil {
		return nil, err
	}
	switch tier {
	case needs.TierQuick:
		return [][]stage{{{"go test ./...", []command{goTest(needs.TierQuick, "./...")}}}}, nil
	case needs.TierTest:
		return g.testStages(), nil
	case needs.TierCI:
		return g.ciStages()
	}
	return nil, fmt.Errorf("%s is not a tier that runs as one: want quick, test or ci", tier)
}
