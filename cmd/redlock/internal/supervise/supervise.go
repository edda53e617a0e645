// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package supervise runs a command that must not outlive a lease.
//
// The command is the leader of a process group of its own. Three things end the group in time:
//
//   - [Run] sends SIGTERM a quarter of the TTL before validity ends, and SIGKILL a twentieth of the TTL before it ends. If the votes of
//     the lease are gone, Run sends SIGKILL at once.
//   - The guard is a second process. It sends SIGKILL when the process of Run has died, and when that process is stopped for so long that
//     validity is about to end.
//   - On Linux the kernel kills the command with the process of Run (PR_SET_PDEATHSIG), in case somebody kills the guard as well.
//
// A process that leaves the group (setsid, a daemon, a job of an interactive shell, timeout(1) within a script) is not ended. Neither is one that runs as another
// user, whom this one may not signal.
//
// A program that uses this package calls [Hidden] first of all.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/internal/said"
)

const (
	// termShare and killShare are the parts of a TTL, before validity ends, at which the group gets SIGTERM and SIGKILL. A lease is
	// renewed after each third of its TTL: a quarter is left when two renewals in a row have failed.
	termShare, killShare = 4, 20
	// The guard kills later than Run does, because Run can say why.
	guardShare = 40

	// straysEvery is how often Run looks whether the processes that the command left behind have ended.
	straysEvery = 10 * time.Millisecond
	// desertedAfter is how long the SIGCONT of a shell that continued this process may take to be caught.
	desertedAfter = 1500 * time.Millisecond
)

// StraysLimit is how long a process that the command left behind in its group may take to end by itself. Tests make it shorter.
var StraysLimit = 5 * time.Second

// Lease is what the command must not outlive. A *redlock.Lease is one.
type Lease interface {
	Context() context.Context
	ValidUntil() time.Time
}

// Command is what is run.
type Command struct {
	Path string   // of the executable file
	Args []string // beginning with the name of the command
	Env  []string
}

// Ended says how a command ended.
type Ended struct {
	Code int // its exit code, or 128+n if signal n ended it
	// NeverRan says that Path could not be executed: Code is 126 or 127 then, and the reason is on standard error.
	NeverRan bool
	Lost     error // why the lease was lost, or nil. The command was told to end then, or was killed.
	// Asked is the last of SIGINT, SIGTERM and SIGQUIT that was passed on, or 0.
	Asked syscall.Signal
}

// Signals are the signals that [Run] passes on to the command.
type Signals chan os.Signal

var (
	passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
	// jobControl is caught only while the command runs: before that, SIGTSTP stops this process as it stops any other.
	jobControl = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}
	// ending are those after which a command that is stopped is continued, so that it can end.
	ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
)

// Catch begins to catch signals. INT and HUP stay ignored if this process was started so (nohup, a shell's &), by the command
// too. The others do not: Go's runtime does not tell.
func Catch() Signals {
	s := make(Signals, 64)
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(s, sig)
		}
	}
	return s
}

// Run runs c until it has ended, with all that it left behind in its process group. The lease is still held then, unless Ended.Lost says
// otherwise: the caller releases it. ttl is the TTL of the lease. say tells the user something that went wrong.
//
// An error says that the command could not be started. When c.Path cannot be executed, there is no error: see Ended.NeverRan.
//
// Call Run from the main goroutine with its thread locked: the kernel takes the end of the thread that started the command for the end of
// the process. It may be called again when it has returned.
func Run(c Command, lease Lease, ttl time.Duration, signals Signals, say func(string)) (Ended, error) {
	r := &run{lease: lease, ttl: ttl, signals: signals, say: say, terminal: openTerminal()}
	defer r.terminal.close()
	adoptOrphans()
	children, leave := join()
	defer leave()
	var err error
	if r.guard, err = startGuard(0, 0); err != nil {
		return Ended{}, err
	}
	defer r.guard.stop()
	begin, err := r.start(c)
	if err != nil {
		return Ended{}, err
	}
	defer r.failed.Close()
	r.tellGuard()
	begins()
	signal.Notify(signals, jobControl...)
	// In the background, this process may still write to the terminal (stty tostop) and take it back.
	signal.Ignore(syscall.SIGTTOU)
	r.terminal.handOver(r.group, false)
	begin()
	r.supervise(children)
	r.guard.stop()
	r.terminal.takeBack(r.group)
	if r.status.Signaled() {
		r.terminal.restore()
	}
	if r.lost == nil && lease.Context().Err() != nil {
		r.lost = context.Cause(lease.Context())
	}
	return Ended{Code: r.code(), NeverRan: r.neverRan(), Lost: r.lost, Asked: r.asked}, nil
}

// run is one command that runs.
type run struct {
	lease    Lease
	ttl      time.Duration
	signals  Signals
	say      func(string)
	terminal terminal
	guard    *guard
	failed   *os.File // has something to read if the command could not be executed
	group    int      // the process group, which is also the process id of the command

	guardAt  time.Duration // when the guard kills the group, on sharedClock; 0: it was told nothing
	due      time.Duration // when the lease is looked at next, on sharedClock
	late     time.Duration // the longest that such a look came late
	guardDue bool          // such a time came

	killAt time.Time // when SIGKILL follows on SIGTERM; zero before SIGTERM
	killed bool
	lost   error
	asked  syscall.Signal

	// deserted is when it is clear that no shell stopped this process with the command, which gets word then. Zero: the command is not stopped.
	deserted time.Time
	word     syscall.Signal

	exited   bool
	status   unix.WaitStatus
	straysTo time.Time // until when what the command left behind may take to end
}

// supervise returns when the command has ended and its group is empty.
func (r *run) supervise(children <-chan child) {
	ended := r.lease.Context().Done()
	timer := time.NewTimer(r.look())
	defer timer.Stop()
	for !r.exited || !r.empty() {
		select {
		case c := <-children:
			r.seen(c)
		case sig := <-r.signals:
			r.pass(sig)
		case <-ended:
			ended = nil
			if !r.killed {
				r.lost = errors.Join(r.lost, context.Cause(r.lease.Context()))
				r.kill(said.LeaseLost.Text)
			}
		case <-timer.C:
		}
		timer.Reset(r.look())
	}
}

// look compares the time with the validity of the lease, does what is due, and returns after how long to look again. It looks at ever
// shorter intervals, so that it needs no message from a lease that was renewed.
func (r *run) look() time.Duration {
	r.lateBy()
	again := r.lookAtLease()
	if !r.deserted.IsZero() {
		again = min(again, r.alone())
	}
	r.due = sharedClock() + again
	if !r.exited || r.killed {
		return again
	}
	if r.straysTo.IsZero() {
		r.straysTo = time.Now().Add(StraysLimit)
	}
	if time.Now().After(r.straysTo) {
		r.kill(said.LeftBehind.With(StraysLimit))
	}
	return min(again, straysEvery)
}

// alone continues the command, which stopped while no shell is there that stops this process and continues it. If it asked for the terminal,
// which nobody will give it, it would ask for ever: it is told that the shell has gone. alone returns after how long to look again.
func (r *run) alone() time.Duration {
	if left := time.Until(r.deserted); left > 0 {
		return left
	}
	select {
	case sig := <-r.signals: // this process was held up, and did not take the shell's SIGCONT in
		r.pass(sig)
		return 0
	default:
	}
	r.deserted = time.Time{}
	_ = r.signal(r.word)
	return straysEvery
}

func (r *run) lookAtLease() time.Duration {
	if r.killed {
		return straysEvery
	}
	if r.killAt.IsZero() {
		until := r.lease.ValidUntil()
		if left := time.Until(until) - r.ttl/termShare; left > 0 {
			if r.tellGuard(); !r.guardDue {
				r.late = 0 // the lease was renewed, however late
			}
			return max(left/2, time.Millisecond)
		}
		r.killAt = until.Add(-r.ttl / killShare)
		r.lost = errors.New("no quorum of masters renewed the lease in time")
		if r.lateBy() > r.ttl/10 {
			r.lost = r.stoodStill()
		}
		if !errors.Is(r.signal(syscall.SIGTERM), unix.EPERM) { // else kill says so
			r.say(said.CannotRenew.Text)
		}
	}
	if left := time.Until(r.killAt); left > 0 {
		return left
	}
	r.kill(said.LeaseEnds.Text)
	return straysEvery
}

// tellGuard tells the guard until when the group may live.
func (r *run) tellGuard() {
	now := sharedClock() // before the lease is asked: if this process is stopped in between, the deadline comes too early, not too late
	r.guardDue = r.guardWasDue()
	r.guardAt = now + time.Until(r.lease.ValidUntil()) - r.ttl/guardShare
	r.guard.tell(r.group, r.guardAt)
}

// lateBy returns for how long this process has stood still at most, as its own timer tells, which came late or is late.
func (r *run) lateBy() time.Duration {
	if r.due != 0 {
		r.late = max(r.late, sharedClock()-r.due)
	}
	return r.late
}

// stoodStill is why the lease was lost when this process was stopped.
func (r *run) stoodStill() error {
	return fmt.Errorf("this process stood still for %v, so nothing renewed the lease", r.lateBy().Round(time.Millisecond))
}

// guardWasDue reports whether the guard may have killed the group. Then this process was stopped. The lease tells nothing: it may have been
// renewed after that.
func (r *run) guardWasDue() bool { return r.guardDue || r.guardAt != 0 && sharedClock() >= r.guardAt }

// seen takes in that a child has ended or stopped.
func (r *run) seen(c child) {
	switch {
	case c.pid == r.group && c.status.Stopped():
		r.stopped(c.status.StopSignal())
	case c.pid == r.group:
		r.exited, r.status = true, c.status
		if !r.killed && c.status.Signal() == syscall.SIGKILL && r.guardWasDue() {
			r.lost = r.stoodStill()
		}
	case c.pid == r.guard.pid && !c.status.Stopped():
		r.guardEnded()
	}
}

// guardEnded replaces a guard that somebody killed. A group that was killed needs none: the next one's time would be over when it begins.
func (r *run) guardEnded() {
	r.guard.forget()
	if r.killed {
		return
	}
	r.tellGuard() // nobody yet
	g, err := startGuard(r.group, r.guardAt)
	if err != nil {
		r.say(said.NoGuard.With(err))
		return
	}
	r.guard = g
	begins()
}

// pass passes a signal on to the group.
func (r *run) pass(sig os.Signal) {
	if sig == syscall.SIGCONT {
		r.deserted = time.Time{}
		r.terminal.handOver(r.group, false)
	}
	if slices.Contains(ending, sig) && sig != syscall.SIGHUP { // for many services, SIGHUP means: read your settings again
		r.asked = sig.(syscall.Signal)
	}
	_ = r.signal(sig.(syscall.Signal))
}

// sendSignal is what a test of processes of another user's replaces.
var sendSignal = unix.Kill

// signal sends a signal to the group. A command that is stopped is continued for one that asks it to end. The error is EPERM if the whole group is
// another user's.
func (r *run) signal(sig syscall.Signal) error {
	err := sendSignal(-r.group, sig)
	if slices.Contains(ending, os.Signal(sig)) {
		_ = sendSignal(-r.group, syscall.SIGCONT)
	}
	return err
}

// kill kills the group, and says what was done.
func (r *run) kill(what string) {
	r.killed = true
	if errors.Is(r.signal(syscall.SIGKILL), unix.EPERM) {
		what = said.NotKilled.Text
	}
	r.say(what)
}

// empty reports whether no process is left in the group: after SIGKILL, none but zombies, whose parent may have left the group and reap them
// never.
func (r *run) empty() bool {
	return errors.Is(unix.Kill(-r.group, 0), unix.ESRCH) || r.killed && zombies(r.group)
}

// stopped does what is due when the command was stopped by sig. Under a shell with job control this process stops as well, because the shell
// looks at this process only. The lease is not renewed while this process is stopped: the guard watches over it.
func (r *run) stopped(sig syscall.Signal) {
	asksForTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch {
	case asksForTerminal && r.terminal.handOver(r.group, true):
	case r.terminal.fd < 0, sig == syscall.SIGSTOP && !r.terminal.handed:
		return // nobody who stopped it expects this process to stop
	default:
		r.terminal.takeBack(r.group)
		r.tellGuard()
		StopJob()
		// Who continues this process sends a SIGCONT, which is passed on. A second one may come behind the user's next Ctrl-Z, and the command
		// would read what the shell is to read.
		r.deserted, r.word = time.Now().Add(desertedAfter), syscall.SIGCONT
		if asksForTerminal {
			r.word = syscall.SIGHUP
		}
		return
	}
	_ = unix.Kill(-r.group, syscall.SIGCONT)
}

// code is the exit code, as a shell has it.
func (r *run) code() int {
	if r.status.Signaled() {
		return 128 + int(r.status.Signal())
	}
	return r.status.ExitStatus()
}
