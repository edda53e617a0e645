// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// hunt runs all random tests in turn with new seeds until the budget is used up. For a seed that fails it prints the command that runs it
// again, and the line to add to the list.
func (g *gate) hunt(ctx context.Context, o options) (green bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.budget)
	defer cancel()
	tests := pick(g.tests, func(f testFunc) bool {
		return f.seeds && f.tags == "" && !f.calls("Java") && (strings.Contains(f.name, o.only) || strings.Contains(f.pkg, o.only))
	})
	if len(tests) == 0 {
		return false, fmt.Errorf("no random test has %q in its name or package", o.only)
	}
	found := 0
	rounds := 0
	for ; ctx.Err() == nil; rounds++ {
		for i, f := range tests {
			if ctx.Err() != nil {
				g.res.say("round %d: %d of %d tests were not reached\n", rounds+1, len(tests)-i, len(tests))
				break
			}
			seed := rand.Uint64()
			n := len(g.res.reds())
			c := goTest(needs.TierTest, "-run", "^"+f.name+"$", f.path())
			c.dir = g.root
			c.env = append(c.env, replay.SeedVar+"="+strconv.FormatUint(seed, 10))
			if err := g.res.run(ctx, "hunt", c); err != nil && ctx.Err() == nil {
				return false, err
			}
			if ctx.Err() == nil && len(g.res.reds()) > n {
				found++
				seed = g.res.culprit(seed)
				g.res.say("\nseed %d: again with\n    %s=%d %s=test go test -count=1 -run '^%s$' %s\nline for %s/%s:\n    %s %d name the fault here\n\n",
					seed, replay.SeedVar, seed, needs.TierVar, f.name, f.path(), f.path(), replay.List, f.name, seed)
				g.res.forget()
			}
		}
	}
	g.res.say("\nhunt: %d random tests, %d whole rounds in %v, %d seeds found a fault\n", len(tests), max(rounds-1, 0), o.budget, found)
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, ctx.Err()
	}
	return found == 0, nil
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
