// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/stall"
)

// maxAlone is how many tests run again alone, or parts of so many. On a machine that holds up more than these, red means nothing, and neither does green.
const maxAlone = 8

// aloneStage is the stage of tests that run again.
const aloneStage = "again, alone"

// A heldUp is a test, or a part of one, of which each try was held up by its machine, and so it was skipped. command is the one that ran it.
type heldUp struct {
	stage, pkg, test string
	command          *command
}

// name is what the results call it, and whole what they call the test of which it is a part.
func (h *heldUp) name() string { return short(h.pkg) + " " + h.test }

func (h *heldUp) whole() string {
	whole, _, _ := strings.Cut(h.test, "/")
	return short(h.pkg) + " " + whole
}

// notJudged notes that a test was held up, or a part of one. Until it passes alone it is red.
func (r *results) notJudged(stage, pkg, test string) {
	h := heldUp{stage: stage, pkg: pkg, test: test}
	if !slices.Contains(r.heldUp, h) {
		r.heldUp = append(r.heldUp, h)
	}
}

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

// alone runs again what was held up, one after the other, when nothing else of the gate runs. What passes now is red no more. A test that failed as
// well, or a part of it, is not run again, and stays red. Of a test with parts only those run again that were held up: the others have passed, and
// would have but this last try now.
func (g *gate) alone(ctx context.Context) error {
	again := g.res.toRunAgain()
	if len(again) == 0 {
		return ctx.Err()
	}
	tests := map[string]bool{}
	for _, h := range again {
		tests[h.whole()] = true
	}
	if len(tests) > maxAlone {
		g.res.say("\n%d tests were held up: the machine is too busy to judge them\n", len(tests))
		return ctx.Err()
	}
	g.res.begin(aloneStage)
	for _, h := range again {
		g.res.say("held up, and tried again alone: %s\n", h.name())
		if err := g.res.run(ctx, aloneStage, h.command.only(h.pkg, h.test)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// toRunAgain returns the tests that were held up and have not failed.
func (r *results) toRunAgain() []heldUp {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.heldUp), func(h heldUp) bool { return h.command == nil || r.failedToo(&h) })
}

// failedToo says whether the test has failed, or a part of it, that was held up.
func (r *results) failedToo(h *heldUp) bool {
	for red := range r.red {
		if red == h.whole() || strings.HasPrefix(red, h.whole()+"/") {
			return true
		}
	}
	return false
}

// judged notes that a test has passed alone, or a part of one. That a test passes says nothing of a part that is not there any more.
func (r *results) judged(pkg, test string) {
	r.heldUp = slices.DeleteFunc(r.heldUp, func(h heldUp) bool { return h.pkg == pkg && h.test == test })
}

// only is the command c of go test for one test, or a part of one, with nothing beside it. It is the last try.
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
	c.args = append(out, "-parallel", "1", "-run", "^"+strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^")+"$", pkg)
	c.env = append(slices.Clone(c.env), stall.TriesVar+"="+stall.LastTry)
	return c
}
