// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/gate/scan"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// A part of a soak gets a share of the budget. One that is over before leaves the rest to those behind it.
type part struct {
	name    string
	share   float64
	command command
}

// soak runs what takes hours within a budget: chaos on real masters with each persistence, mutants of the source, the long variants of tests,
// fuzz, and a hunt with what is left. A part that has passed in the same folder before is not run again, if sources and budget are the same. It ends with what it did
// and did not reach.
func (g *gate) soak(ctx context.Context, o options) (green bool, err error) {
	if o.dir == "" {
		o.dir = filepath.Join(g.root, "soak")
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return false, err
	}
	end := time.Now().Add(o.budget)
	parts := g.soakParts(o.budget, o.dir)
	var report []string
	for i, p := range parts {
		left := 0.0
		for _, q := range parts[i:] {
			left += q.share
		}
		note, err := g.soakPart(ctx, p, time.Duration(float64(time.Until(end))*p.share/(left+huntShare)), o)
		if err != nil {
			return false, err
		}
		report = append(report, note)
		g.res.say("%s\n", note)
	}
	if left := time.Until(end); left > time.Minute && ctx.Err() == nil {
		o.budget = left
		if _, err := g.hunt(ctx, o); err != nil {
			return false, err
		}
	} else {
		report = append(report, "not reached    hunt")
	}
	green = g.res.print("soak") && ctx.Err() == nil
	text := strings.Join(report, "\n") + "\n"
	g.res.say("\n%s", text)
	return green, os.WriteFile(filepath.Join(o.dir, "report.txt"), []byte(text), 0o644)
}

// huntShare is what the hunt gets of the budget at the least.
const huntShare = 0.15

func (g *gate) soakParts(budget time.Duration, dir string) (parts []part) {
	chaos := func(name, nemesis, persistence string) {
		const share = 0.09
		strike := time.Duration(float64(budget) * share * 0.8).Round(time.Second)
		parts = append(parts, part{name, share, command{name: name, args: []string{"go", "run", "./cmd/redlock-bench", "chaos",
			"--duration", strike.String(), "--nemesis", nemesis, "--persistence", persistence, "--html", filepath.Join(dir, name+".html")}}})
	}
	chaos("chaos-default-none", "default", "none")
	chaos("chaos-default-everysec", "default", "everysec")
	chaos("chaos-default-always", "default", "always")
	chaos("chaos-all-everysec", "all", "everysec")
	long := scan.Pick(g.tests, func(f scan.Test) bool {
		return root(f) && f.Tags != scan.Elsewhere && (f.Calls("InSoak", "Soak") || f.Seeds && slices.Contains(f.Around, "InSoak"))
	})
	for _, f := range long {
		c := goTest(needs.TierSoak, append(f.Flags(), "-run", "^"+f.Name+"$", f.Path())...)
		c.args[slices.Index(c.args, timeout)] = "0"
		name := strings.ReplaceAll(strings.TrimPrefix(f.Pkg, "./"), "/", "-") + "-" + strings.TrimPrefix(f.Name, "Test")
		parts = append(parts, part{name, 0.32 / float64(len(long)), c})
	}
	targets := g.fuzz(max(budget/400, 5*time.Second).Round(time.Second).String())
	for _, c := range targets {
		parts = append(parts, part{c.name, 0.08 / float64(len(targets)), c})
	}
	mutation := part{"mutation", 0.09, command{name: "mutation", args: []string{"go", "run", "./internal/mutation", "-seed", "1",
		"-budget", (budget / 12).Round(time.Second).String()}}}
	return append(parts, mutation)
}

// runsIn returns what a test says of how many runs it made, for the report.
func runsIn(text string) (runs string) {
	for _, m := range saidRuns.FindAllStringSubmatch(text, -1) {
		runs += ", " + m[1] + m[2]
	}
	return runs
}

var saidRuns = regexp.MustCompile(`replay\.go:\d+: (\d+ runs)\n|\.go:\d+: (\S+ of \S+0s)\n`)

// soakPart runs one part for at most limit, and returns its line of the report. What it says is in a log of its own.
func (g *gate) soakPart(ctx context.Context, p part, limit time.Duration, o options) (string, error) {
	passed := filepath.Join(o.dir, p.name+".passed")
	now := g.tested(ctx, o)
	if before, err := os.ReadFile(passed); err == nil && now != "" && string(before) == now {
		return fmt.Sprintf("passed before  %s", p.name), nil
	}
	if ctx.Err() != nil || limit < time.Second {
		return fmt.Sprintf("not reached    %s", p.name), nil
	}
	log, err := os.Create(filepath.Join(o.dir, p.name+".log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := p.command
	c.dir = g.root
	began := time.Now()
	// A test of many runs ends by itself a little earlier, and says how many there were.
	c.env = append(c.env, replay.UntilVar+"="+began.Add(limit*4/5).Format(time.RFC3339))
	g.res.begin(p.name)
	before := len(g.res.reds())
	var said bytes.Buffer
	g.res.log = io.MultiWriter(log, &said)
	err = g.res.run(limited, p.name, c)
	g.res.log = nil
	if err != nil && limited.Err() == nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	took := brief(time.Since(began)) + runsIn(said.String())
	judged, why := g.res.verdicts(p.name)
	switch {
	case limited.Err() != nil:
		return fmt.Sprintf("not finished   %s: ended after %s, its share of the budget", p.name, took), nil
	case len(g.res.reds()) > before:
		return fmt.Sprintf("FAILED         %s, after %s", p.name, took), nil
	case judged == 0:
		return fmt.Sprintf("skipped        %s: nothing was judged (%s)", p.name, why), nil
	}
	return fmt.Sprintf("passed         %s, %s", p.name, took), os.WriteFile(passed, []byte(now), 0o644)
}

// tested says what a part tests now: the commit, a hash of what is not committed, and the budget, of which each part has its share. It is empty
// if git cannot say, as outside a checkout. Files that git ignores, and those of the soak itself, do not count.
func (g *gate) tested(ctx context.Context, o options) string {
	hash := sha256.New()
	var texts []string
	for _, args := range [][]string{{"rev-parse", "HEAD"}, {"diff", "--binary", "--no-ext-diff", "HEAD"}, {"ls-files", "-z", "--others", "--exclude-standard"}} {
		git := exec.CommandContext(ctx, "git", args...)
		git.Dir = g.root
		text, err := git.Output()
		if err != nil {
			return ""
		}
		texts = append(texts, string(text))
	}
	fmt.Fprintf(hash, "%d %s", len(texts[1]), texts[1])
	for name := range strings.SplitSeq(texts[2], "\x00") {
		path := filepath.Join(g.root, name)
		if name == "" || strings.HasPrefix(path, o.dir+string(filepath.Separator)) {
			continue
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(hash, "%q %d %v %s", name, len(text), err, text)
	}
	return fmt.Sprintf("commit %schanges %x\nbudget %v\n", texts[0], hash.Sum(nil), o.budget)
}
