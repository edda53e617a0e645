// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/tail"
)

// event is a line that go test -json prints.
type event struct {
	Action     string
	Package    string
	Test       string
	Elapsed    float64
	Output     string
	ImportPath string // of build-output
}

// A command is one call of a program whose result counts.
type command struct {
	name string // of the one result of a program that prints no events
	dir  string
	env  []string // besides that of this process
	args []string
	json bool // prints events
}

// run runs c and adds what it says to the results of stage. It returns an error only where the program could not be run to its end.
func (r *results) run(ctx context.Context, stage string, c command) error {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	// What it started is in its process group, and is gone when run returns.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr := tail.Writer{Max: 16 << 10}
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }() // what it left behind
	if c.json {
		r.read(stage, out)
		r.ran(stage, c)
	} else {
		r.plain(stage, c, out)
	}
	err = cmd.Wait()
	r.used(stage, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if ctx.Err() != nil {
		return ctx.Err() // broken off: what it had not said is not known
	}
	r.end(stage, c, time.Since(began), err, stderr.String())
	return exitless(err)
}

// exitless is err, or nil if err only says that the program ended with a code other than 0.
func exitless(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// read adds the events that it reads from in.
func (r *results) read(stage string, in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.say("%s\n", lines.Text()) // a program that prints past its test runner
			continue
		}
		r.add(stage, e)
	}
	_, _ = io.Copy(io.Discard, in)
}

// plain shows what a program without events prints.
func (r *results) plain(stage string, c command, in io.Reader) {
	text, _ := io.ReadAll(in)
	r.add(stage, event{Action: "output", Package: c.name, Test: c.name, Output: string(text)})
}

// end notes how a command ended: for a program without events that is its result, and for go test it shows what no event says.
func (r *results) end(stage string, c command, took time.Duration, err error, stderr string) {
	if !c.json {
		r.add(stage, event{Action: "output", Package: c.name, Test: c.name, Output: stderr})
		verdict := "pass"
		if err != nil {
			verdict = "fail"
			r.add(stage, event{Action: "output", Package: c.name, Test: c.name, Output: fmt.Sprintf("%s: %v\n", strings.Join(c.args, " "), err)})
		}
		r.add(stage, event{Action: verdict, Package: c.name, Test: c.name, Elapsed: took.Seconds()})
		return
	}
	if err != nil && !r.failed(stage) {
		// Nothing that was read says why.
		r.add(stage, event{Action: "output", Package: stage, Test: stage, Output: fmt.Sprintf("%s: %v\n%s", strings.Join(c.args, " "), err, stderr)})
		r.add(stage, event{Action: "fail", Package: stage, Test: stage})
	}
}
