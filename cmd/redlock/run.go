// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/cmd/redlock/internal/supervise"
	"github.com/redlock-go/redlock/internal/hostpid"
	"github.com/redlock-go/redlock/internal/interrupt"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/redlock"
)

// The exit codes of run that are neither the command's nor every command's. They are those of sysexits.h, so that few commands have them as
// their own.
const (
	exitLost = 74 // EX_IOERR
	exitHeld = 75 // EX_TEMPFAIL
)

const runHelp = `Takes the lock NAME, runs a command, and gives the lock back when the command
has ended. There is no shell: the command is a program and its arguments.

The command has a process group of its own. INT, TERM, HUP, QUIT, USR1, USR2 and
WINCH are passed on to the group. In its environment are

  REDLOCK_NAME   the name of the lock
  REDLOCK_TOKEN  the fencing token, which a resource can check

For a timer that fires on many hosts, use --every: one of them runs the command,
and the others end with 75. --no-wait alone does not do that: a host whose timer
fires when the command has ended runs it again.

While the command runs, the lock is renewed. If that fails, the group gets
SIGTERM a quarter of the TTL before the lock ends, and SIGKILL a twentieth of
the TTL before it ends. It gets SIGKILL at once if the votes of the masters are
gone. It also gets SIGKILL when redlock itself is killed, or stopped for longer
than the lock lasts. A process that leaves the group, as daemons do, and
timeout(1) within a script, is not ended. What the command leaves behind in its
group has 5 s to end by itself; then it is killed, and the lock given back.

exit code: that of the command, and 128+n if signal n ended it; else
    2  usage; the masters belong to another list, or so many cannot be used that
       no quorum is left
    3  masters not available: no quorum of them answers, or votes
   74  the lock was lost: the command was ended, or may have run without it
   75  held by another, with --no-wait or after --wait; ran already (--every)
  126  the command cannot be executed
  127  the command is not found
  130  interrupted while it waited for the lock (128+n for signal n)`

// mastersPatience is how long run goes on while no quorum of masters answers.
const mastersPatience = 5 * time.Second

// minRunTTL leaves a command some time between SIGTERM and the end of the lock.
const minRunTTL = time.Second

// runner is the command run.
type runner struct {
	masters
	output
	ttl, wait time.Duration
	noWait    bool
	minHold   time.Duration // 0: none
	every     time.Duration // 0: run each time
	verbose   bool
	owner     string // what others see of this process
	verb      string // run or elect
	name      string
	path      string              // of the executable
	argv      []string            // the command
	seen      *redlock.Inspection // of the lock, after it could not be had; may be nil
}

func newRun(o output) *cobra.Command {
	r := &runner{output: o, verb: "run"}
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- command [argument ...]",
		Short: "run a command while it holds a lock",
		Long:  runHelp,
		Example: `  redlock run nightly --every 12h -- backup --full
  redlock run deploy --wait 10m --ttl 30s -- ./deploy.sh production`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(cmd *cobra.Command, args []string) error {
			return r.arguments(args, cmd.ArgsLenAtDash())
		},
	}
	fs := cmd.Flags()
	r.define(fs)
	fs.DurationVar(&r.wait, "wait", 0, "`TIME` to wait for the lock (default: without limit)")
	fs.BoolVarP(&r.noWait, "no-wait", "n", false, "do not wait for the lock")
	fs.DurationVar(&r.minHold, "min-hold", 0, "`TIME` that the lock stays taken after it was taken, even if the command ends before")
	fs.DurationVar(&r.every, "every", 0, "`TIME` in which the command is run at most once, over all hosts; does not wait")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.check(fs.Changed); err != nil {
			return misuse(cmd, err)
		}
		return nil
	}
	cmd.RunE = func(*cobra.Command, []string) error { return r.run() }
	return cmd
}

// define declares the flags that run and elect have.
func (r *runner) define(fs *pflag.FlagSet) {
	r.masters.define(fs, "nodes", "", "all the masters")
	r.defineFile(fs)
	r.defineFixed(fs)
	fs.DurationVar(&r.ttl, "ttl", redlock.DefaultTTL, "`TIME` that the lock stays taken after redlock died; it is renewed until then")
	fs.StringVar(&r.owner, "owner", hostpid.Name(), "`LABEL` that others see, in inspect for example; empty: none")
	fs.Lookup("owner").DefValue = "host/pid"
	fs.BoolVarP(&r.verbose, "verbose", "v", false, "say more")
}

// arguments takes the words of the command line that are no flags. dash is how many there are before --, or -1.
func (r *runner) arguments(args []string, dash int) error {
	switch {
	case dash < 0 && len(args) > 1:
		return errors.New("want -- between the name and the command: " + r.usage())
	case dash > 1:
		return fmt.Errorf("want one name before --, have %d words: %s", dash, r.usage()) // words may be passwords
	case dash == 0 || len(args) == 0:
		return errors.New("want a name: " + r.usage())
	case len(args) == 1:
		return errors.New("want a command: " + r.usage())
	case args[0] == "":
		return errors.New("the name is empty: " + r.usage())
	}
	r.name, r.argv = args[0], args[1:]
	return nil
}

func (r *runner) usage() string { return "redlock " + r.verb + " NAME -- command" }

func (r *runner) check(given func(flag string) bool) error {
	waitGiven := given("wait")
	switch {
	case given("every") && (waitGiven || given("min-hold")):
		return errors.New("--every excludes --wait and --min-hold: it does not wait, and holds for its own time")
	case given("every") && (r.every < minTime || r.every > maxTime):
		return fmt.Errorf("--every %v: want %v to %v", r.every, minTime, maxTime)
	case given("min-hold") && (r.minHold < minTime || r.minHold > maxTime):
		return fmt.Errorf("--min-hold %v: want %v to %v", r.minHold, minTime, maxTime)
	case r.noWait && waitGiven:
		return errors.New("--no-wait and --wait exclude each other: give one of them")
	case waitGiven && r.wait <= 0:
		return fmt.Errorf("--wait %v: want more than 0, or --no-wait", r.wait)
	case r.wait > maxTime:
		return fmt.Errorf("--wait %v: want %v or less", r.wait, maxTime)
	}
	return r.checkShared(given)
}

// checkShared judges the flags of define. A maximum TTL below the default TTL is the TTL of who gives none, as in programs.
func (r *runner) checkShared(given func(flag string) bool) error {
	if !given("ttl") && r.maxTTL >= minRunTTL {
		r.ttl = min(r.ttl, r.maxTTL)
	}
	switch {
	case r.maxTTL < minRunTTL:
		return fmt.Errorf("--max-ttl %v: a command under a lock needs masters with %v or more", r.maxTTL, minRunTTL)
	case r.ttl < minRunTTL:
		return fmt.Errorf("--ttl %v: want %v or more", r.ttl, minRunTTL)
	case r.ttl > r.maxTTL:
		return fmt.Errorf("--ttl %v: want the --max-ttl of these masters, %v, or less", r.ttl, r.maxTTL)
	}
	if err := r.masters.check(); err != nil {
		return err
	}
	_, err := inside.Settings(append(r.list().Options, redlock.WithTTL(r.ttl), redlock.WithClientName(r.owner)))
	return r.byFlag(err, fmt.Sprintf("ttl %v", r.ttl), "ttl")
}

// run does all of it.
func (r *runner) run() (err error) {
	if r.path, err = executable(r.argv[0]); err != nil {
		return err
	}
	signals := supervise.Catch()
	client, lease, err := r.take(signals)
	if err != nil {
		return err
	}
	defer r.leave(client)
	r.more("took lock %q, token %d", r.name, lease.Token())
	ended, err := supervise.Run(supervise.Command{Path: r.path, Args: r.argv, Env: r.environment(lease)}, lease, r.ttl, signals, r.say)
	switch { // nothing has run: the period of --every, or --min-hold, is not used up
	case err != nil:
		_ = inside.Abandon(lease, context.Background())
		return &exitError{supervise.ExitCannotExecute, said.CannotStart.With(err)}
	case ended.NeverRan:
		_ = inside.Abandon(lease, context.Background())
		return &exitError{code: ended.Code}
	}
	unlockErr := lease.Unlock(context.Background())
	if ended.Lost == nil && errors.Is(unlockErr, redlock.ErrLost) {
		ended.Lost = unlockErr
	}
	if ended.Lost != nil {
		return &exitError{exitLost, said.LostLock.With(strconv.Quote(r.name), ended.Lost)}
	}
	if unlockErr != nil {
		r.say(said.MayStay.With(strconv.Quote(r.name), r.ttl, unlockErr))
	} else {
		r.more("gave lock %q back", r.name)
	}
	if ended.Code != exitOK {
		return &exitError{code: ended.Code}
	}
	return nil
}

// say tells the user something that went wrong.
func (r *runner) say(what string) {
	fmt.Fprintf(r.err, "redlock: %s\n", plain(errors.New(what)))
}

// more tells the user something with --verbose.
func (r *runner) more(format string, args ...any) {
	if r.verbose {
		r.say(fmt.Sprintf(format, args...))
	}
}

// executable finds the file of a command, as a shell does.
func executable(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // a PATH that has the working directory in it says what it wants
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &exitError{supervise.ExitNotFound, said.NotFound.With(name)}
	}
	var cause *exec.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return "", &exitError{supervise.ExitCannotExecute, fmt.Sprintf("%s: %v", name, err)}
}

// environment is that of the command.
func (r *runner) environment(lease *redlock.Lease) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "REDLOCK_NAME=") || strings.HasPrefix(v, "REDLOCK_TOKEN=")
	})
	return append(env, "REDLOCK_NAME="+r.name, "REDLOCK_TOKEN="+strconv.FormatInt(lease.Token(), 10))
}

// watch calls cancel at a signal that would end this program, until stop is called. stop returns that signal, or 0. One that comes when
// [interrupt.Grace] is over ends the program at once.
func watch(signals supervise.Signals, cancel func()) (stop func() syscall.Signal) {
	var interrupted syscall.Signal
	var at time.Time // of that signal
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case sig := <-signals:
				switch {
				case sig == syscall.SIGTSTP:
					supervise.StopJob()
				case sig == syscall.SIGWINCH, sig == syscall.SIGCONT:
				case interrupted != 0 && time.Since(at) < interrupt.Grace:
				case interrupted != 0:
					os.Exit(exitSignal + int(sig.(syscall.Signal)))
				default:
					interrupted, at = sig.(syscall.Signal), time.Now()
					cancel()
				}
			}
		}
	}()
	return func() syscall.Signal {
		close(over)
		<-done
		return interrupted
	}
}
