// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/gate/scan"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// hunt runs all random tests in turn with new seeds until the budget is used up. For a seed that fails it prints the command that runs it
// again, and the line to add to the list. A test that only skips is not counted, and is named at the end. A hunt in which nothing was
// judged is not green.
func (g *gate) hunt(ctx context.Context, o options) (green bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.budget)
	defer cancel()
	tests := g.random(o.only)
	if len(tests) == 0 {
		return false, fmt.Errorf("no random test has %q in its name or package", o.only)
	}
	found := 0
	rounds := 0
	unjudged := map[string]string{} // the tests that have skipped, and why
	for ; ctx.Err() == nil; rounds++ {
		for i, f := range tests {
			if ctx.Err() != nil {
				g.res.say("round %d: %d of %d tests were not reached\n", rounds+1, len(tests)-i, len(tests))
				break
			}
			fault, err := g.huntOnce(ctx, f, unjudged)
			if err != nil {
				return false, err
			}
			if fault {
				found++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unjudged)) {
		g.res.say("%s skipped: nothing was judged (%s)\n", name, unjudged[name])
	}
	g.res.say("\nhunt: %d random tests, %d whole rounds in %v, %d seeds found a fault\n", len(tests)-len(unjudged), max(rounds-1, 0), o.budget, found)
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, ctx.Err()
	}
	n, _ := g.res.verdicts("hunt")
	return found == 0 && n > 0, nil
}

// random are the random tests with only in their name or package. Those of a soak take it for themselves: they are left out.
func (g *gate) random(only string) []scan.Test {
	return scan.Pick(g.tests, func(f scan.Test) bool {
		if !f.Seeds || f.Tags != "" || f.Calls("Java") || !strings.Contains(f.Name, only) && !strings.Contains(f.Pkg, only) {
			return false
		}
		if f.Calls("Soak") {
			g.res.say("left out: %s of %s is for a soak\n", f.Name, f.Path())
			return false
		}
		return true
	})
}

// huntOnce runs a test with a new seed, in the first tier in which it does not skip, and reports whether the seed found a fault.
func (g *gate) huntOnce(ctx context.Context, f scan.Test, unjudged map[string]string) (fault bool, err error) {
	tier := needs.TierTest
	if f.Calls("CI", "Server") {
		tier = needs.TierCI
	}
	seed := rand.Uint64()
	reds := len(g.res.reds())
	before, _ := g.res.verdicts("hunt")
	c := goTest(tier, "-run", "^"+f.Name+"$", f.Path())
	c.dir = g.root
	c.env = append(c.env, replay.SeedVar+"="+strconv.FormatUint(seed, 10))
	err = g.res.run(ctx, "hunt", c)
	if ctx.Err() != nil {
		return false, nil // the budget is used up
	}
	if err != nil {
		return false, err
	}
	name := f.Path() + " " + f.Name
	delete(unjudged, name)
	if after, why := g.res.verdicts("hunt"); after == before {
		unjudged[name] = why
	}
	if len(g.res.reds()) <= reds {
		return false, nil
	}
	seed = g.res.culprit(seed)
	g.res.say("\nseed %d: again with\n    %s=%d %s=%s go test -count=1 -run '^%s$' %s\nline for %s/%s:\n    %s %d name the fault here\n\n",
		seed, replay.SeedVar, seed, needs.TierVar, tier, f.Name, f.Path(), f.Path(), replay.List, f.Name, seed)
	g.res.forget()
	return true, nil
}

var replayed = regexp.MustCompile(`replay: ` + replay.SeedVar + `=(\d+) `)

// culprit returns the seed that a red test names in its command, or the drawn one: a test of many short runs goes on with the seeds after it.
func (r *results) culprit(drawn uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.red {
		if m := replayed.FindStringSubmatch(text); m != nil {
			if seed, err := strconv.ParseUint(m[1], 10, 64); err == nil {
				return seed
			}
		}
	}
	return drawn
}
