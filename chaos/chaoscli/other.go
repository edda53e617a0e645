// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/report"
	"github.com/redlock-go/redlock/chaos/workload"
)

func defineFailover(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	var driver, image string
	var out files
	fs.StringVar(&driver, "driver", "", "`NAME` docker or process; default docker if an engine answers, else process")
	fs.StringVar(&image, "image", "", "`NAME` of the docker image")
	out.define(fs)
	fs.Lookup("history").Usage = "`FILE` for the history. \"chaos check\" judges it as a run, and ends with 1: two of the locks have two holders"
	return func(ctx context.Context, c *console, _ []string) error {
		d, err := parseDriver(driver, image, "")
		if err == nil && d == chaos.Sim {
			err = usagef("--driver sim: the experiment needs masters and a replica that are real: docker or process")
		}
		if err != nil {
			return err
		}
		if err := out.open(); err != nil {
			return err
		}
		defer out.close()
		sweep(ctx, c)
		replay := "redlock-bench chaos failover"
		if d != cluster.Auto {
			replay += " --driver " + string(d)
		}
		res, h, checks, err := chaos.Failover(ctx, chaos.FailoverConfig{Driver: d, Image: image, Replay: replay, Out: c.err})
		if res == nil {
			return err
		}
		return endFailover(c, &out, res, h, checks, err)
	}
}

// endFailover writes and prints what the experiment found, and returns how the command ends. Besides what the experiment counts, tokens are promised, and a history
// that can be true. err is why the experiment broke off.
func endFailover(c *console, out *files, res *chaos.FailoverResult, h *history.History, checks []check.Result, err error) error {
	held := res.Held() && judge.Passed(checks)
	if !held {
		out.nameMissing("redlock-chaos-failover")
	}
	err = errors.Join(err, out.write(c, res, history.Whole(h), checks, told(res, held)))
	if out.json != "-" {
		fmt.Fprint(c.out, res)
	}
	for _, r := range checks {
		if r.Promised && r.Verdict != check.Ok {
			fmt.Fprint(c.err, verdict(r))
		}
	}
	switch {
	case held && !res.Again():
		err = errors.Join(err, errors.New("a lock was not granted again, so the experiment showed nothing: run it again"))
	case held && !res.Shown():
		err = errors.Join(err, errors.New("a lock without recovery was kept this time, so the experiment showed nothing: run it again"))
	}
	return c.end(held, err)
}

// told returns the text of the report on the experiment, in which every promise was kept, or was not.
func told(res *chaos.FailoverResult, held bool) *report.Told {
	t := &report.Told{
		Shown: held && res.Shown(), Title: "A master dies before its replica has heard of the lock", Head: "Without recovery the lock had two holders, with recovery one",
		Lines: []string{
			fmt.Sprintf("On one master with a replica, without recovery (the lock “single”): %d of %d grants came while somebody still held the lock.", res.Single.Overlaps, res.Single.Grants),
			fmt.Sprintf("On five masters, one of which failed over in the same way, without recovery (“quorum-forgetful”): %d of %d.", res.QuorumForgetful.Overlaps, res.QuorumForgetful.Grants),
			fmt.Sprintf("On one master, with recovery (“single-recovering”): %d of %d.", res.SingleRecovering.Overlaps, res.SingleRecovering.Grants),
			fmt.Sprintf("On five masters, with recovery (“quorum”): %d of %d.", res.Quorum.Overlaps, res.Quorum.Grants),
		},
		Intro: "A client took a lock. The master that had it was killed before its replica had heard of the lock, the replica was promoted, and a second client " +
			"asked for the lock. This was done to a single master, which is what a lock in one Redis with a replica hangs on, and to one of five masters, " +
			"one that had given its vote to the first client’s bare majority; to each without recovery and with it. Recovery: a promoted replica is not the " +
			"master that gave its vote, so it gives no other before every lease that it may not know of is over.",
	}
	if !t.Shown {
		t.Head = "The experiment did not show what it should"
	}
	return t
}

func defineCheck(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	var heal, timeout time.Duration
	var out files
	fs.DurationVar(&heal, "heal", 0, "`TIME` after the last fault within which every lock must be taken; default that of the run, or 10s if the history does not say")
	fs.DurationVar(&timeout, "timeout", time.Minute, "`TIME` after which the checker linearizable gives up")
	out.define(fs)
	fs.Lookup("html").Usage = "`FILE` to write a report to"
	fs.Lookup("history").Usage = "`FILE` to write the histories to, as one. Those that are judged are named without a flag"
	return func(ctx context.Context, c *console, paths []string) error {
		switch {
		case len(paths) == 0 && out.history != "":
			return usagef("check: --history %s is a file to write: name the history that is to be judged without a flag", out.history)
		case len(paths) == 0:
			return usagef("check: name the files of a run's history")
		case heal < 0:
			return usagef("--heal %v: want a time above 0, or 0 for that of the run", heal)
		case timeout <= 0:
			return usagef("--timeout %v: want a time above 0", timeout)
		}
		h, err := history.Open(paths...)
		switch {
		case errors.Is(err, history.ErrCutOff):
			return fmt.Errorf("%w; nothing was judged", err)
		case err != nil:
			return usageError{err}
		}
		run := h.Run()
		for _, torn := range run.Torn {
			fmt.Fprintf(c.err, "the last line is cut off, and left out: %s\n", torn)
		}
		if err := out.open(paths...); err != nil {
			return err
		}
		defer out.close()
		expect := judge.Expected(run, timeout)
		if heal > 0 {
			expect.Heal = heal
		}
		checks, tally, err := judge.Run(ctx, h, expect, judge.ChapterOps)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return usageError{err}
		}
		res := chaos.Summarize(tally, checks)
		err = out.write(c, res, h, checks, nil)
		if out.json != "-" {
			for _, r := range checks {
				fmt.Fprint(c.out, verdict(r))
			}
			for _, file := range run.NoEnd {
				c.paragraph("   note: ", file+" has no end line, so nobody can tell whether it is whole. Lines that are missing may hide a violation, or look like one")
			}
		}
		return c.end(judge.Passed(checks), err)
	}
}

func defineList(*flag.FlagSet) func(context.Context, *console, []string) error {
	return func(_ context.Context, c *console, _ []string) error {
		fmt.Fprintln(c.out, "nemeses: under X exclusion is promised, under T tokens and the fenced register are")
		for _, n := range nemesis.Table() {
			fmt.Fprintf(c.out, "  %-15s %-3s %s", n.Name, promise(n.Promises), n.Does)
			if notes := notes(n); notes != "" {
				fmt.Fprintf(c.out, " [%s]", notes)
			}
			fmt.Fprintln(c.out)
		}
		var kinds []string
		for _, k := range workload.Kinds() {
			kinds = append(kinds, string(k))
		}
		fmt.Fprintf(c.out, "workloads: %s\n", strings.Join(kinds, ", "))
		fmt.Fprintln(c.out, `checkers:
  assumptions        the history can be true
  exclusion          no two claims on a lock overlap (X)
  tokens             tokens are unique and grow (T)
  fenced-register    the register that checks tokens loses no update (T)
  unfenced-register  counts the updates that the other register loses
  linearizable       one perfect fenced mutex could have answered the same, by porcupine (X and T)
  counters           no counter of a master falls, unless the master is known to have lost its data (T)
  healed             after the faults every lock can be taken, and every key ends
  effort             the run did enough to mean something
  left-behind        nothing is left on a master that nobody needs any more
  signals            a holder is told in time that its lease is over, and never without a reason
  queue-order        no call that waits is passed by many that came later
  availability       a free lock can be taken while a quorum of masters is healthy
  resources          no client's heap grows, and no goroutine outlives it
  refusals           a client with wrong settings is refused
  harness            the run came to its end, and nothing crashed`)
		return nil
	}
}

func promise(p history.Promises) string {
	s := ""
	if p.Exclusion {
		s += "X"
	}
	if p.Tokens {
		s += "T"
	}
	return s
}

func notes(n nemesis.Nemesis) string {
	var s []string
	if n.Elsewhere != "" {
		return "not on real masters: " + n.Elsewhere
	}
	for _, p := range []cluster.Persistence{cluster.None, cluster.EverySec, cluster.Always} {
		if why := n.Lacks(nemesis.Have{Persistence: p}); why != "" {
			s = append(s, why)
			break
		}
	}
	if n.Needs.Clocks {
		s = append(s, "needs Linux and cc, for clocks of the masters' own")
	}
	return strings.Join(s, "; ")
}
