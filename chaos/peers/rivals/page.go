// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/stats"
)

// libraries are those that were measured, in the order of the page.
func (r *Data) libraries() []string {
	var names []string
	for _, name := range Libraries {
		if slices.ContainsFunc(r.Cells, func(c *Cell) bool { return len(c.Rounds[name]) > 0 }) {
			names = append(names, name)
		}
	}
	return names
}

// What a library locks on. Less is less work: a lock on one master is lost with it.
const (
	onQuorum = iota
	onOne
	noLock // what the commands alone cost
)

func kindOf(lib string) int {
	switch lib {
	case "redislock", "rueidislock", "setnx":
		return onOne
	case "floor", "resp":
		return noLock
	}
	return onQuorum
}

func label(lib string) string {
	switch {
	case kindOf(lib) == onOne:
		return lib + " (one master)"
	case kindOf(lib) == noLock:
		return lib + " (no lock)"
	case lib == "etcd":
		return lib + " (its own servers, on disk)"
	}
	return lib
}

func (c *Cell) title() string {
	what := "one caller"
	if c.Callers > 1 {
		what = fmt.Sprintf("%d callers", c.Callers)
	}
	if c.Asks > 0 {
		what += fmt.Sprintf(" that ask %g times a second together", c.Asks)
	}
	switch {
	case c.Hot && c.Asks > 0:
		what += fmt.Sprintf(", for one lock, held %g ms", c.Hold)
	case c.Locks > 0:
		what += fmt.Sprintf(", who take %s locks in turn", thousands(c.Locks))
	case c.Hot:
		what += fmt.Sprintf(" that want one lock, held %g ms", c.Hold)
	default:
		what += ", each with its own lock"
	}
	if c.Delay > 0 {
		what += fmt.Sprintf(", %g ms to the masters and back", c.Delay)
	}
	if c.Slow > 0 {
		what += fmt.Sprintf(", one of the masters %g ms further away", c.Slow)
	}
	if c.Hung {
		what += ", one of the masters hung"
	}
	if c.Dead {
		what += ", one of the masters dead"
	}
	return what
}

// thousands is n with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// sample is one figure of all rounds of a library.
func (c *Cell) sample(lib string, of func(Figures) float64) stats.Sample {
	var values []float64
	for _, f := range c.Rounds[lib] {
		values = append(values, of(f))
	}
	return stats.New(values)
}

func mastersOf(f Figures) float64 { return f.Masters }
func rateOf(f Figures) float64    { return f.Rate }
func p50Of(f Figures) float64     { return f.P50 }
func p99Of(f Figures) float64     { return f.P99 }
func cpuOf(f Figures) float64     { return f.CPU }
func jainOf(f Figures) float64    { return f.Jain }

// The words of the page. Figures are put in between.
const (
	pageBegin = `# Results

For a person who compares libraries, five minutes. Each figure comes from [the raw data](results.json) by ` + "`make results`" + `, which writes this page.

`
	pageHow = `All libraries lock on the same masters, and take turns in each round, so that they see the same minutes of the machine; each round begins with another one. A figure is the median
of the rounds, and in brackets the interval that has the median of all rounds that could be measured, with 95 % (order statistics, as benchstat's). Libraries with "(one master)" keep a lock on
one master: that is less work, and the lock is lost with that master. redsync has its default options; redsync-tuned has a pool of 128 connections to each master and tries again every 5 ms on the average for as long as its caller waits. redislock, rueidislock and
setnx (SET NX PX and a script that deletes the caller's own key, as people write it by hand) are tried every 20 ms on the average while the lock is held. A lock on one master that is hung or dead
cannot be had there: those callers have no part in the figures, except in the failures.
Times are of acquire and release where each caller has its own lock, and of the wait where all want one. CPU is that of the process with all clients, for one lock, and masters is that
of all masters together; where masters are far, the proxies that hold messages back are in the clients' process. Fairness is Jain's index of how often each caller had a lock: 1 is even. A failure is a call that ended without the lock.
Where no rate is named a caller asks again when it has been answered, so that a slow library is asked less often (a closed loop). Where callers ask so many times a second they do so at fixed times, and
a time counts from when the caller was to ask, even if it was still waiting then (an open loop).

`
)

func (r *Data) page() string {
	var b strings.Builder
	b.WriteString(pageBegin)
	fmt.Fprintf(&b, "| | |\n| --- | --- |\n| measured | %s |\n| machine | %s |\n| masters | %d: %s |\n| Go | %s |\n", r.Run.At.UTC().Format("2006-01-02 15:04 UTC"), r.Run.Machine, r.Masters, r.Run.Masters, r.Run.Go)
	if r.Run.Build != "" {
		fmt.Fprintf(&b, "| commit | %s |\n", r.Run.Build)
	}
	for _, lib := range r.libraries() {
		fmt.Fprintf(&b, "| %s | %s |\n", label(lib), r.Versions[lib])
	}
	fmt.Fprintf(&b, "| rounds | %d, of %g s for each figure |\n| command | `%s` |\n\n", r.Rounds, r.Seconds, r.Run.Command)
	b.WriteString(pageHow)
	for _, more := range []struct{ lib, how string }{
		{"redisson", "redisson is RedissonRedLock in Java with its own settings, whose compiler has had three seconds to warm up; its CPU is that of the JVM."},
		{"etcd", "etcd has three members on the same host. Its grants and releases are on the disks of two of them before they are answered: it keeps a lock over a loss of power. It is measured where nothing is wrong with a master."},
		{"floor", "floor is no lock: it is the least that a quorum acquire and release costs with go-redis, two scripts that set and delete a key on each master, with no validity, time-out or clean-up. resp is the same with the protocol written by hand. Both are measured where each caller has its own lock and no master is dead or hung."},
	} {
		if slices.Contains(r.libraries(), more.lib) {
			b.WriteString(more.how + "\n\n")
		}
	}
	for _, p := range r.pictures() {
		if p.file == glanceFile {
			continue // is README's, and all of it is in the others
		}
		fmt.Fprintf(&b, "![%s](%s)\n\n", p.title, p.file)
	}
	for _, c := range r.Cells {
		r.table(&b, c)
	}
	r.held(&b)
	b.WriteString(r.Struck.section())
	b.WriteString("## Where we lose\n\nWhere another library is better, and by more than noise (Mann-Whitney, p below 0.05): its figure, and ours in brackets.\n")
	for kind, title := range []string{onQuorum: "On a quorum of masters", onOne: "On one master", noLock: "Beside what is no lock"} {
		fmt.Fprintf(&b, "\n**%s.**", title)
		if worse := r.worse(kind); len(worse) > 0 {
			b.WriteString("\n\n- " + strings.Join(worse, "\n- ") + "\n")
		} else {
			b.WriteString(" In none of these figures.\n")
		}
	}
	return b.String()
}

func (r *Data) table(b *strings.Builder, c *Cell) {
	title := c.title()
	fmt.Fprintf(b, "## %s\n\n| library | locks a second | p50 | p99 | CPU | masters | fairness | failures |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n", strings.ToUpper(title[:1])+title[1:])
	for _, lib := range r.libraries() {
		failures := 0
		for _, f := range c.Rounds[lib] {
			failures += f.Failures
		}
		if len(c.Rounds[lib]) > 0 {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %.2f | %d |\n", label(lib), told(c.sample(lib, rateOf), rate), told(c.sample(lib, p50Of), micros), told(c.sample(lib, p99Of), micros),
				told(c.sample(lib, cpuOf), micros), told(c.sample(lib, mastersOf), micros), c.sample(lib, jainOf).Median(), failures)
		}
	}
	b.WriteString("\n")
}

// held has the table of locks that one process keeps.
func (r *Data) held(b *strings.Builder) {
	if len(r.Held) == 0 {
		return
	}
	b.WriteString("## One process that keeps many locks\n\nEach is renewed by the library, three times in a TTL. Lost are those that it ended, a TTL after the last was taken. CPU is in processors, while they are held.\n\n" +
		"| library | locks | TTL | taken in | lost | memory a lock | CPU | masters | on a master, a lock |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, h := range r.Held {
		if h.Failed != "" {
			fmt.Fprintf(b, "| %s | %s | not done: %s | | | | | | |\n", label(h.Library), thousands(h.Leases), h.Failed)
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %g s | %.1f s | %d | %.0f bytes | %.2f | %.2f | %.0f bytes |\n", label(h.Library), thousands(h.Leases), h.TTL, h.Took, h.Lost, h.Memory, h.CPU, h.Masters, h.Keys)
	}
	b.WriteString("\n")
}

// told is the median of a sample, and its interval if there are rounds enough. Nothing takes no time: a median of 0 says that no lock was granted.
func told(s stats.Sample, write func(float64) string) string {
	if s.Median() == 0 {
		return "-"
	}
	text := write(s.Median())
	if low, high, ok := s.Interval(0.95); ok {
		text += fmt.Sprintf(" (%s to %s)", write(low), write(high))
	}
	return text
}

func rate(v float64) string { return fmt.Sprintf("%.0f", v) }

func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", us/1000)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// compared are the figures that are held against each other.
var compared = []struct {
	name   string
	of     func(Figures) float64
	higher bool // is better
	asked  bool // in an open loop, what it is depends on what was asked for
	write  func(float64) string
}{
	{"locks a second", rateOf, true, true, rate}, {"p50", p50Of, false, false, micros}, {"p99", p99Of, false, false, micros}, {"CPU", cpuOf, false, false, micros},
	{"CPU of the masters", mastersOf, false, false, micros}, {"fairness", jainOf, true, true, func(v float64) string { return fmt.Sprintf("%.2f", v) }},
}

// worse has a line for each cell and library in which figures of ours are worse by more than noise.
func (r *Data) worse(kind int) (lines []string) {
	for _, c := range r.Cells {
		for _, lib := range r.libraries() {
			if lib == "redlock" || kindOf(lib) != kind || len(c.Rounds[lib]) == 0 {
				continue
			}
			var what []string
			for _, f := range compared {
				ours, theirs := c.sample("redlock", f.of), c.sample(lib, f.of)
				if f.asked && c.Asks > 0 {
					continue // as many as were asked for, by whom they were asked for
				}
				mine, other := f.write(ours.Median()), f.write(theirs.Median())
				if mine != other && (theirs.Median() > ours.Median()) == f.higher && stats.Differ(ours, theirs) < 0.05 {
					what = append(what, fmt.Sprintf("%s %s (%s)", f.name, other, mine))
				}
			}
			if len(what) > 0 {
				lines = append(lines, fmt.Sprintf("%s, %s: %s", c.title(), label(lib), strings.Join(what, ", ")))
			}
		}
	}
	return lines
}
