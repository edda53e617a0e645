// SPDX-License-Identifier: Apache-2.0

// Command mutation changes one thing at a time in the packages that a lock rests on, and asks
// whether any test notices: it runs the tests on the changed source, the quick ones first. A
// mutant that no test kills is a rule without a test, or a change that changes nothing.
//
// It takes mutants at random until its budget is over, and prints the seed, the survivors and
// the share that was killed. It changes no file of the tree: the go command is given the
// changed file with -overlay.
//
//   - gosource.go and luasource.go say what is changed.
//   - suites.go says in which files, and which tests judge them.
//   - equivalent.txt lists mutants that behave as the original, with the reason. They are not taken.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// settings are the flags of the command.
type settings struct {
	seed    uint64
	budget  time.Duration
	timeout time.Duration
	only    string
	depth   int
	list    bool
	gocmd   string
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	flags.Uint64Var(&s.seed, "seed", 0, "which mutants are taken; 0 draws a seed")
	flags.DurationVar(&s.budget, "budget", 30*time.Minute, "how long mutants are tried")
	flags.DurationVar(&s.timeout, "timeout", 5*time.Minute, "how long one suite may take")
	flags.StringVar(&s.only, "only", "", "take mutants whose line of the list contains this text, such as node/lua")
	flags.IntVar(&s.depth, "depth", 0, "try a mutant with so many of its suites, the quick ones first; 0 is all")
	flags.BoolVar(&s.list, "list", false, "print all mutants, and try none")
	flags.StringVar(&s.gocmd, "go", "go", "the go command")
	err := flags.Parse(args)
	if s.seed == 0 {
		s.seed = rand.Uint64N(1 << 32)
	}
	return s, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	module, err := moduleRoot(s.gocmd)
	if err != nil {
		return err
	}
	mutants, err := mutantsOf(module)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !strings.Contains(m.String(), s.only) })
	if s.list {
		for i := range mutants {
			fmt.Fprintln(out, &mutants[i])
		}
		return nil
	}
	scratch, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	t := &trial{gocmd: s.gocmd, module: module, scratch: scratch, timeout: s.timeout, depth: s.depth}
	fmt.Fprintf(out, "seed %d, %d mutants, %v\n", s.seed, len(mutants), s.budget)
	rng := rand.New(rand.NewPCG(s.seed, 0))
	rng.Shuffle(len(mutants), func(i, k int) { mutants[i], mutants[k] = mutants[k], mutants[i] })
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	r, err := tryAll(ctx, t, mutants, out)
	r.print(out)
	fmt.Fprintf(out, "again: make mutation SEED=%d BUDGET=%v ONLY='%s' DEPTH=%d\n", s.seed, s.budget, s.only, s.depth)
	return err
}

// tryAll tries mutants until ctx ends. Each suite must pass on the tree as it is, before it judges the
// first mutant.
func tryAll(ctx context.Context, t *trial, mutants []mutant, out io.Writer) (r report, err error) {
	passed := make(map[string]bool)
	for i := range mutants {
		m := &mutants[i]
		for _, s := range t.suites(m.file) {
			if name := strings.Join(s, " "); !passed[name] {
				fails, by := t.fails(ctx, s)
				if ctx.Err() != nil {
					return r, nil
				}
				if fails != "" {
					return r, fmt.Errorf("go test %s fails without any mutant: %s", name, by)
				}
				passed[name] = true
			}
		}
		source, err := os.ReadFile(filepath.Join(t.module, m.file))
		if err != nil {
			return r, err
		}
		began := time.Now()
		v, by, err := t.judge(ctx, m, source)
		if err != nil || v == broken {
			return r, err
		}
		r.add(m, v)
		if by != "" {
			by = ", by " + by
		}
		fmt.Fprintf(out, "%-12s %s (%.0f s%s)\n", v, m, time.Since(began).Seconds(), by)
	}
	return r, nil
}

// report counts verdicts.
type report struct {
	count     map[verdict]int
	survivors []*mutant
}

func (r *report) add(m *mutant, v verdict) {
	if r.count == nil {
		r.count = make(map[verdict]int)
	}
	r.count[v]++
	if v == survived {
		r.survivors = append(r.survivors, m)
	}
}

func (r *report) print(out io.Writer) {
	judged := r.count[killed] + r.count[survived]
	fmt.Fprintf(out, "\nkilled %d of %d; %d did not compile\n", r.count[killed], judged, r.count[notCompiled])
	for _, m := range r.survivors {
		fmt.Fprintln(out, "survivor:", m)
	}
}

// moduleRoot is the folder of the module that the current folder is in.
func moduleRoot(gocmd string) (string, error) {
	out, err := exec.Command(gocmd, "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// mutantsOf lists the mutants of the module but the equivalent ones.
func mutantsOf(module string) ([]mutant, error) {
	all, err := listed(module)
	same := equivalents()
	return slices.DeleteFunc(all, func(m mutant) bool { return same[m.key()] != "" }), err
}

// listed lists all mutants of the module, by file.
func listed(module string) (all []mutant, err error) {
	for dir := range areas {
		entries, err := os.ReadDir(filepath.Join(module, dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			file := dir + "/" + e.Name()
			if e.IsDir() || !mutated(file) {
				continue
			}
			source, err := os.ReadFile(filepath.Join(module, file))
			if err != nil {
				return nil, err
			}
			found := luaMutants(file, source)
			if strings.HasSuffix(file, ".go") {
				if found, err = goMutants(file, source); err != nil {
					return nil, err
				}
			}
			all = append(all, found...)
		}
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return strings.Compare(a.file, b.file) })
	return all, nil
}
