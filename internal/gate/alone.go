// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/stall"
)

// maxAlone is how many tests run again alone. On a machine that holds up more than these, red means nothing, and neither does green.
const maxAlone = 8

// aloneStage is the stage of tests that run again.
const aloneStage = "again, alone"

// A heldUp is a test that failed, and was held up by its machine each time. command is the one that ran it.
type heldUp struct {
	stage, pkg, test string
	command          *command
}

// name is what the results call it.
func (h *heldUp) name() string { return short(h.pkg) + " " + h.test }

// has says whether the results call it red, or a part of it.
func (h *heldUp) has(red string) bool { return red == h.name() || strings.HasPrefix(red, h.name()+"/") }

// ran notes which command ran the tests of stage that were held up. The commands of a stage run one after the other.
func (r *results) ran(stage string, c command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.heldUp {
		if h := &r.heldUp[i]; h.stage == stage && h.command == nil {
			h.command = &c
		}
	}
}

// alone runs the tests again that were held up, one after the other, when nothing else of the gate runs. For each that passes now, what it said
// before does not count. A test with a part that failed without being held up is not run again, and stays red.
func (g *gate) alone(ctx context.Context) error {
	again := g.res.excusable()
	if len(again) == 0 {
		return ctx.Err()
	}
	if len(again) > maxAlone {
		g.res.say("\n%d tests were held up: the machine is too busy to judge them\n", len(again))
		return ctx.Err()
	}
	g.res.begin(aloneStage)
	for _, h := range again {
		g.res.excuse(h)
		if err := g.res.run(ctx, aloneStage, h.command.only(h.pkg, h.test)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// excusable returns the tests, not their parts, of which each part that failed was held up.
func (r *results) excusable() (tests []heldUp) {
	reds := r.reds()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.heldUp {
		h.test = whole(h.test)
		same := func(o heldUp) bool { return o.pkg == h.pkg && o.test == h.test }
		counts := func(red string) bool { return h.has(red) && !strings.Contains(r.red[red], stall.AloneText) }
		if h.command != nil && !slices.ContainsFunc(tests, same) && !slices.ContainsFunc(reds, counts) {
			tests = append(tests, h)
		}
	}
	return tests
}

// whole is the test that a part of it, or itself, belongs to.
func whole(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

// excuse takes back that a test failed.
func (r *results) excuse(h heldUp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.red, func(red, _ string) bool { return h.has(red) })
	r.stage(h.stage).failed--
	fmt.Fprintf(r.out, "held up, and tried again alone: %s\n", h.name())
}

// only is the command c of go test for one test, with nothing beside it. It is the last try.
func (c command) only(pkg, test string) command {
	args := c.args[slices.Index(c.args, "go"):]
	out := make([]string, 0, len(args)+6)
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains([]string{"-run", "-p", "-parallel"}, args[i]):
			i++ // and what it is set to
		case i > 1 && strings.HasPrefix(args[i], "."): // a package
		default:
			out = append(out, args[i])
		}
	}
	c.args = append(out, "-parallel", "1", "-run", "^"+test+"$", pkg)
	c.env = append(slices.Clone(c.env), stall.TriesVar+"="+stall.LastTry)
	return c
}
