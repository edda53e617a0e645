// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/tail"
)

// Press is a Java process that measures RedissonRedLock, with Redisson's own settings and those of the JVM. It is for one goroutine at a time.
type Press struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	last  *tail.Writer
}

// Pressing is one measurement: so many callers want one lock, or each its own.
type Pressing struct {
	Callers                int
	Hold, Duration, Period time.Duration // Period: a caller asks so often, whether it was answered or not; 0: when it was answered
	Own, Once              bool          // Once: each takes its lock once
	Locks                  int           // how many there are, which all callers take in turn; 0: see Own
	Name                   string
}

// Pressed is what a measurement saw.
type Pressed struct {
	Count, Failures int
	Squares         float64 // of the callers' counts
	P50, P99        time.Duration
	Held            time.Duration // in all
	CPU, Elapsed    time.Duration // of the process
}

// StartPress starts a process with so many clients of the masters, host:port each. The context bounds the start.
func StartPress(ctx context.Context, clients int, masters []string) (*Press, error) {
	java, classes, err := program(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"-XX:+DisplayVMOutputToStderr", "-cp", classes, "redlock.redissontest.RedissonPress", strconv.Itoa(clients)}
	p := &Press{cmd: exec.Command(java, append(args, masters...)...), last: &tail.Writer{Max: keptStderr}}
	p.cmd.Stderr = p.last
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("redissontest: %w", err)
	}
	if _, err := p.reply(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Measure measures once. Its error means that the process has ended.
func (p *Press) Measure(m Pressing) (saw Pressed, err error) {
	request := url.Values{
		"callers": {strconv.Itoa(m.Callers)}, "hold": {nanos(m.Hold)}, "duration": {nanos(m.Duration)}, "period": {nanos(m.Period)},
		"own": {strconv.FormatBool(m.Own)}, "once": {strconv.FormatBool(m.Once)}, "locks": {strconv.Itoa(m.Locks)}, "name": {m.Name},
	}
	if _, err := fmt.Fprintln(p.stdin, request.Encode()); err != nil {
		return saw, fmt.Errorf("%w: %w, stderr: %s", ErrClosed, err, p.last)
	}
	reply, err := p.reply()
	if err != nil {
		return saw, err
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(reply.Get(name), 10, 64)
		return n
	}
	return Pressed{
		Count: int(number("count")), Failures: int(number("failures")), Squares: float64(number("squares")), P50: time.Duration(number("p50")), P99: time.Duration(number("p99")),
		Held: time.Duration(number("held")), CPU: time.Duration(number("cpu")), Elapsed: time.Duration(number("elapsed")),
	}, nil
}

func (p *Press) reply() (url.Values, error) {
	if !p.lines.Scan() {
		return nil, fmt.Errorf("%w: it ended by itself, stderr: %s", ErrClosed, p.last)
	}
	return url.ParseQuery(p.lines.Text())
}

// Close ends the process and waits until it is gone.
func (p *Press) Close() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}
