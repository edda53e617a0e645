// SPDX-License-Identifier: Apache-2.0

package clockshim

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClock returns a clock and the directory with its file and the built library.
func newClock(t *testing.T) (*Clock, string) {
	t.Helper()
	dir := t.TempDir()
	if err := Build(t.Context(), dir); errors.Is(err, ErrUnavailable) {
		needs.Missing(t, "programs", err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	c, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

// run runs a program of this machine under the clock in dir.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), Env(dir)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// wantShown reads the clock in another process: at least low of the real time before, at most high of the real time after.
func wantShown(t *testing.T, dir string, low, high func(time.Time) time.Time) {
	t.Helper()
	before := time.Now()
	ns, err := strconv.ParseInt(run(t, dir, "date", "+%s%N"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	got, lo, hi := time.Unix(0, ns), low(before), high(after)
	if got.Before(lo) || got.After(hi) {
		t.Fatalf("the process reads %v, want between %v and %v", got, lo, hi)
	}
}

func TestClock_untouched_exact(t *testing.T) {
	_, dir := newClock(t)
	shown := func(real time.Time) time.Time { return real }
	wantShown(t, dir, shown, shown)
}

func TestClock_step_absolute(t *testing.T) {
	c, dir := newClock(t)
	for _, offset := range []time.Duration{time.Minute, -time.Hour, time.Millisecond, 0} {
		if err := c.Step(offset); err != nil {
			t.Fatal(err)
		}
		shown := func(real time.Time) time.Time { return real.Add(offset) }
		wantShown(t, dir, shown, shown)
	}
}

func TestClock_rate_continuous(t *testing.T) {
	c, dir := newClock(t)
	for _, factor := range []float64{0, 0.5, 2, 1000} {
		if err := c.Step(time.Minute); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if err := c.SetRate(factor); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		// The rate took effect somewhere in [before, after]; the bounds below allow for either end.
		slack := time.Duration(float64(after.Sub(before))*math.Abs(factor-1)) + time.Microsecond
		low := func(real time.Time) time.Time {
			return after.Add(time.Minute + time.Duration(float64(real.Sub(after))*factor) - slack)
		}
		high := func(real time.Time) time.Time {
			return before.Add(time.Minute + time.Duration(float64(real.Sub(before))*factor) + slack)
		}
		wantShown(t, dir, low, high)
		if err := c.SetRate(1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClock_rateBackToOne_keepsGain(t *testing.T) {
	c, dir := newClock(t)
	const factor = 1e6 // whatever passes between two calls is a visible gain
	t0 := time.Now()
	if err := c.SetRate(factor); err != nil {
		t.Fatal(err)
	}
	t1 := time.Now()
	run(t, dir, "true")
	t2 := time.Now()
	if err := c.SetRate(1); err != nil {
		t.Fatal(err)
	}
	t3 := time.Now()
	wantShown(t, dir,
		func(real time.Time) time.Time { return real.Add(t2.Sub(t1) * (factor - 1)) },
		func(real time.Time) time.Time { return real.Add(t3.Sub(t0) * (factor - 1)) })
}

func TestClock_rate_refused(t *testing.T) {
	c, _ := newClock(t)
	for _, factor := range []float64{-1, math.NaN(), math.Inf(1)} {
		if c.SetRate(factor) == nil {
			t.Errorf("rate %v accepted", factor)
		}
	}
}

func TestClock_stall_delaysSync(t *testing.T) {
	c, dir := newClock(t)
	const stall = 150 * time.Millisecond
	if err := c.Stall(stall); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"sync", dir}, {"sync", "--data", filepath.Join(dir, File)}} {
		start := time.Now()
		run(t, dir, args[0], args[1:]...)
		if took := time.Since(start); took < stall {
			t.Errorf("%v took %v under a stall of %v", args, took, stall)
		}
	}
}

func TestClock_fileMissing_processRefuses(t *testing.T) {
	_, dir := newClock(t)
	if err := os.Remove(filepath.Join(dir, File)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("true")
	cmd.Env = append(os.Environ(), Env(dir)...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "REDLOCK_CLOCK") {
		t.Fatalf("a process without its clock file ran: %v, %q", err, out)
	}
}

func TestBuild_noCompiler_namesRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Build(context.Background(), t.TempDir())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "install") {
		t.Fatalf("got %v", err)
	}
}
