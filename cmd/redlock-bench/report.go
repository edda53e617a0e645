// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/sheet"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/text"
)

// report is where a measurement's figures go: rows as they are measured, and the JSON at the end.
type report struct {
	table    io.Writer
	progress *termline.Line
	result   results.Result
}

// measure is what latency, contention and tour have in common: masters for the time of work, and a report of what it measured.
func (s *setup) measure(ctx context.Context, o output, name string, work func(context.Context, *masters.Backend, *report) error) error {
	if err := s.checkFiles(); err != nil {
		return err
	}
	b, err := s.open(ctx)
	if err != nil {
		return fmt.Errorf("masters not available: %w", err)
	}
	defer b.Close()
	r := &report{table: o.out, progress: termline.New(o.err)}
	if s.json == "-" {
		r.table = o.err
	}
	r.result = results.Result{
		Command: name, Run: testbed.Here(s.commandLine(name), b.About[0]), Backend: b.Kind, Masters: b.N, TTL: s.ttl.Milliseconds(), Duration: s.duration.Seconds(), Cells: []any{},
	}
	b.Describe(r.table)
	r.line("")
	err = work(ctx, b, r)
	r.result.Interrupted = ctx.Err() != nil
	if err != nil && err != errViolation && ctx.Err() == nil { // a violation by itself is the end of a whole measurement
		r.result.Broke = text.OneLine(err)
	}
	written := errors.Join(s.writeJSON(o, &r.result), s.writeHTML(o, &r.result))
	if err == nil {
		return written
	}
	if written != nil { // how the work ended decides the exit code
		fmt.Fprintf(o.err, "redlock-bench: %s\n", text.OneLine(written))
	}
	return err
}

// checkFiles finds out now, not after the measuring, whether the files of --json and --html can be written, and are two. What they hold stays until then.
func (s *setup) checkFiles() error {
	var taken os.FileInfo
	for _, f := range []struct{ flag, name string }{{"--json", s.json}, {"--html", s.html}} {
		if f.name == "" || f.name == "-" {
			continue
		}
		file, err := os.OpenFile(f.name, os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", f.flag, err)}
		}
		info, err := file.Stat()
		if err := errors.Join(err, file.Close()); err != nil {
			return usageError{fmt.Errorf("%s: %w", f.flag, err)}
		}
		if info.Mode().IsRegular() && os.SameFile(taken, info) {
			return usageError{fmt.Errorf("%s: %s is the file of --json", f.flag, f.name)}
		}
		taken = info
	}
	return nil
}

func (s *setup) writeJSON(o output, r *results.Result) error {
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return o.put("--json", s.json, append(text, '\n'))
}

func (s *setup) writeHTML(o output, r *results.Result) error {
	if s.html == "" {
		return nil
	}
	var text bytes.Buffer
	if err := sheet.Write(&text, r); err != nil {
		return err
	}
	return o.put("--html", s.html, text.Bytes())
}

// put writes what a flag asks for into the file that it names.
func (o output) put(flag, name string, text []byte) (err error) {
	if name == "-" {
		_, err = o.out.Write(text)
	} else {
		err = os.WriteFile(name, text, 0o666)
	}
	if err != nil {
		return outputError{fmt.Errorf("%s: %w", flag, err)}
	}
	return nil
}

func (r *report) line(format string, args ...any) {
	fmt.Fprintln(r.table, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (r *report) latencyHead(b *masters.Backend, l *latency) {
	r.line("latency of acquire + release: %s, %v a cell", b.Label(), l.duration)
	switch up := len(b.Options); {
	case b.Kind == masters.GivenNodes && up < b.N:
		r.line("the floor and CPU are of the %s that answer", text.Plural(up, "master"))
	case l.hurt != "":
		r.line("hurt: %s of one master, %v before; the floor and CPU are of the others", l.hurt, hurtFor)
	}
	if b.Kind == masters.Embedded {
		r.line("floor and masters' CPU: not available on embedded masters")
	} else {
		r.line("ratio is lock / floor, the least it could cost; cpu is for one pair")
	}
	r.line("")
	r.line("%-13s%9s%8s%8s%8s%9s%8s%8s%7s", "callers", "pairs/s", "p50", "p99", "p99.9", "max", "cpu", "masters", "errors")
	r.line("%-13s%9s%8s%8s%8s%9s%8s%8s", "", "", "us", "us", "us", "us", "us", "us")
}

func (r *report) latencyRow(c *results.LatencyCell) {
	r.result.Cells = append(r.result.Cells, c)
	r.latencyLine(fmt.Sprintf("%7d lock", c.Callers), &c.Figures)
	if c.Floor == nil {
		return
	}
	r.latencyLine("        floor", c.Floor)
	q := c.Ratio
	r.line("        ratio%9.2f%8.2f%8.2f%8.2f%9.2f%8.2f%8s", q.PairsPerSecond, q.P50, q.P99, q.P999, q.Max, q.CPU, text.Optional(q.MastersCPU))
	r.line("        pairs/s turn by turn: median %.2f, half of them %.2f to %.2f", q.Median, q.Low, q.High)
}

func (r *report) latencyLine(name string, f *results.Figures) {
	r.line("%-13s%9s%8s%8s%8s%9s%8s%8s%7d", name, text.Number(f.PairsPerSecond), text.Number(f.P50), text.Number(f.P99), text.Number(f.P999),
		text.Number(f.Max), text.Number(f.CPU), text.Optional(f.MastersCPU), f.Errors)
	r.firstError(f.FirstErr)
}

func (r *report) firstError(err error) {
	if err != nil {
		for _, line := range text.Wrap("first error: "+text.OneLine(err), text.Width) {
			r.line("        %s", line)
		}
	}
}

func (r *report) contentionHead(b *masters.Backend, c *contention) {
	who := text.Plural(c.clients, "client")
	if c.processes > 0 {
		who = fmt.Sprintf("%d processes", c.processes)
	}
	r.line("contention for one lock: %s, %s, hold %v, %v a cell", b.Label(), who, c.hold, c.duration)
	if c.readers > 0 {
		r.line("a read-write lock: %d of the waiters read, the others write", c.readers)
	}
	if c.unfair {
		r.line("unfair: who finds the lock free has it, whoever waits longer")
	}
	if c.delay > 0 {
		r.line("proxies add %v to each round trip", c.delay)
	}
	r.line("share 1 is even; overlaps must be 0")
	if b.Kind == masters.Embedded {
		r.line("commands: not available on embedded masters")
	}
	r.line("")
	r.line(contentionLine, "waiters", "acquired", "wait p50", "p99", "max", "Jain", "share", "", "cmds", "rounds", "overlaps")
	r.line(contentionLine, "", "per s", "ms", "ms", "ms", "", "least", "most", "a lock", "a lock", "")
}

const contentionLine = "%7s%9s%9s%7s%7s%6s%6s%6s%7s%7s%9s"

func (r *report) contentionRow(c *results.ContentionCell) {
	r.result.Cells = append(r.result.Cells, c)
	r.line(contentionLine, strconv.Itoa(c.Waiters), text.Number(c.Rate), text.Number(c.WaitP50/1e3), text.Number(c.WaitP99/1e3),
		text.Number(c.WaitMax/1e3), fmt.Sprintf("%.3f", c.Jain), fmt.Sprintf("%.2f", c.MinShare), fmt.Sprintf("%.2f", c.MaxShare),
		text.Optional(c.Commands), text.Number(c.Rounds), strconv.Itoa(c.Overlaps))
	if c.OfTurns > 0 {
		r.line(contentionLine, "limit", text.Number(c.Limit), "", text.Number(float64(c.Waiters)/c.Limit*1e3), "", "", "", "", "", "", "")
		r.line("        the limit: %s ms held and a trip of %s ms; the rate is %.2f of it,",
			text.Number(c.Held/1e3), text.Number(c.Trip/1e3), c.OfLimit)
		r.line("        and the p99 wait %.2f times what it would be", c.OfTurns)
	}
	if c.ClientCPU != nil {
		r.line("        clients: %s us of CPU a lock", text.Number(*c.ClientCPU))
	}
	if c.Readers > 0 {
		r.line("        readers: %s/s of these, up to %d at once", text.Number(c.ReadRate), c.Together)
	}
	if c.Lost > 0 {
		r.line("        %d leases were lost: their holders outlived their validity", c.Lost)
	}
	if c.Errors > 0 {
		r.line("        %d errors", c.Errors)
	}
	r.firstError(c.FirstErr)
	if c.Overlaps > 0 {
		r.line("        VIOLATION: two holders had the lock at once, %d times", c.Overlaps)
	}
}
