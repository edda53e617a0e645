// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// verdict is what became of a mutant.
type verdict string

const (
	killed      verdict = "killed"
	survived    verdict = "SURVIVED"
	notCompiled verdict = "not compiled"
	broken      verdict = "broken off" // the budget, or the caller, ended the trial
)

// trial runs suites on a tree in which one file is another. The tree on disk stays as it is.
type trial struct {
	gocmd   string
	module  string // the folder of the module
	scratch string
	timeout time.Duration // of one suite
	depth   int           // how many suites are run, 0 for all
}

// suites are the suites that judge file here.
func (t *trial) suites(file string) []suite {
	all := suitesOf(file)
	if t.depth > 0 && t.depth < len(all) {
		return all[:t.depth]
	}
	return all
}

// failed finds the name of the first test that failed.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// judge tries a mutant with one suite after the other, until one fails. by is the test that killed it.
func (t *trial) judge(ctx context.Context, m *mutant, source []byte) (v verdict, by string, err error) {
	overlay, err := t.overlay(m.file, m.apply(source))
	if err != nil {
		return "", "", err
	}
	for _, s := range t.suites(m.file) {
		v, by := t.fails(ctx, s, "-overlay", overlay)
		if ctx.Err() != nil {
			return broken, "", nil
		}
		if v != "" {
			return v, by, nil
		}
	}
	return survived, "", nil
}

// fails runs a suite, and returns killed or notCompiled if it fails. by is the test that failed.
//
// Some tests measure time, and fail when the machine does something else. So a test that failed is run
// again by itself, and what passes then is no failure: the suite is run again.
func (t *trial) fails(ctx context.Context, s suite, flags ...string) (v verdict, by string) {
	const tries = 3
	for range tries {
		out, err := t.run(ctx, s, flags...)
		switch test := failed.FindSubmatch(out); {
		case err == nil:
			return "", ""
		case bytes.Contains(out, []byte("[build failed]")):
			return notCompiled, "the compiler"
		case bytes.Contains(out, []byte("panic: test timed out")):
			return killed, "a time-out"
		case test == nil:
			return killed, "the end of its process"
		default:
			by = string(test[1])
		}
		alone := suite{"-run", "^" + by + "$", s[len(s)-1]}
		if len(s) == 1 || s[0] == "-run" {
			_, err = t.run(ctx, alone, flags...)
		}
		if err != nil {
			return killed, by
		}
	}
	return "", ""
}

// overlay writes file in another form, and returns what -overlay of the go command takes.
func (t *trial) overlay(file string, content []byte) (string, error) {
	changed := filepath.Join(t.scratch, "changed"+filepath.Ext(file))
	if err := os.WriteFile(changed, content, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(t.module, file): changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.scratch, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// run runs one suite and returns what it printed. Its processes end with it.
func (t *trial) run(ctx context.Context, s suite, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", t.timeout.String(), "-ldflags=-s -w"}, flags...)
	cmd := exec.CommandContext(ctx, t.gocmd, append(args, s...)...)
	cmd.Dir = t.module
	// A group of its own: what a test started must not outlive a mutant that made the test hang.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // none, mostly
	return out, err
}
