// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/internal/said"
)

func TestMain(m *testing.M) {
	Hidden()
	os.Exit(m.Run())
}

// Who starts another guard may be killed as soon as there is one, before it tells the guard anything more.
func TestStartGuard_starterDiesAtOnce_groupIsKilled(t *testing.T) {
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(time.Minute, func() { _ = c.Process.Signal(syscall.SIGTERM) })
	defer limit.Stop()
	g, err := startGuard(c.Process.Pid, sharedClock()+time.Hour)
	if err != nil {
		t.Error(err)
		_ = c.Process.Kill()
	} else {
		_ = g.w.Close() // as the kernel does
	}
	_ = c.Wait()
	if how := c.ProcessState.Sys().(syscall.WaitStatus); how.Signal() != syscall.SIGKILL {
		t.Errorf("%v", c.ProcessState)
	}
	if g != nil {
		_, _ = unix.Wait4(g.pid, nil, 0, nil)
	}
}

// The guard's time is over once the group was killed, and so would be that of the next one, and of the next: a command that SIGKILL does not end,
// because it is another user's or is stuck in the kernel, must not have this process start guards for as long as it lives.
func TestGuardEnded_groupWasKilled_noOtherGuard(t *testing.T) {
	r := &run{killed: true, guard: &guard{}} // to start one would need the lease
	r.guardEnded()
	if r.guard.pid != 0 {
		t.Errorf("guard %d", r.guard.pid)
	}
}

// A command that runs as another user is not called killed, nor that it got a signal.
func TestKill_commandOfAnotherUser_saysThatItGoesOn(t *testing.T) {
	sendSignal = func(int, syscall.Signal) error { return unix.EPERM }
	defer func() { sendSignal = unix.Kill }()
	var told []string
	r := &run{lease: over{}, ttl: time.Second, guard: &guard{}, say: func(what string) { told = append(told, what) }}
	if r.lookAtLease(); !r.killed || len(told) != 1 || told[0] != said.NotKilled.Text {
		t.Errorf("killed %v: %q", r.killed, told)
	}
}

// over is a lease that is over.
type over struct{ Lease }

func (over) ValidUntil() time.Time { return time.Now().Add(-time.Second) }
