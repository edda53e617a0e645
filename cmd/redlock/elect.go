// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock/cmd/redlock/internal/supervise"
	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/redlock"
)

const electHelp = `Stands for the election NAME, runs a command while this host leads, and stands
again when its term was lost. Start it on several hosts: one of them runs the
command at any time, and the next one when that host fails.

An election is a lock of the same name. The command is run as "redlock run" runs
it: without a shell, in a process group of its own, which is ended before the
term is. In its environment are

  REDLOCK_NAME   the name of the election
  REDLOCK_TOKEN  the number of the term: the fencing token, larger in each term

When the command ends by itself, or after a signal that was passed on to it, the
term is given up and redlock ends. Programs find the leader with package
election or with "redlock inspect NAME": it announces the --value.

exit code: that of the command, and 128+n if signal n ended it; else
    2  usage; the masters belong to another list, or so many cannot be used that
       no quorum is left
    3  masters not available at the start. Later it waits for them; but masters
       that refuse (memory full, a right missing) end it then too
  126  the command cannot be executed
  127  the command is not found
  130  interrupted while it waited to lead (128+n for signal n)`

// elector is the command elect.
type elector struct {
	runner
	value string

	client  *redlock.Client
	signals supervise.Signals
	stop    func() syscall.Signal // ends watch; nil while the command runs
	cancel  context.CancelFunc    // ends the election
	sig     syscall.Signal        // that ended it
	failed  error                 // why redlock ends
	done    bool
}

func newElect(o output) *cobra.Command {
	e := &elector{runner: runner{output: o, verb: "elect"}}
	cmd := &cobra.Command{
		Use:   "elect NAME [flags] -- command [argument ...]",
		Short: "run a command on one of several hosts, and on another one when that fails",
		Long:  electHelp,
		Example: `  redlock elect scheduler -- scheduler --config /etc/scheduler.yaml
  redlock elect api --value http://10.0.0.7:8080 --ttl 5s -- ./serve`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(cmd *cobra.Command, args []string) error {
			return e.arguments(args, cmd.ArgsLenAtDash())
		},
	}
	fs := cmd.Flags()
	e.define(fs)
	fs.StringVar(&e.value, "value", "", "`TEXT` that the leader announces: an address, for example (default host/pid)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		err := e.checkShared(fs.Changed)
		if n := len(e.value); err == nil && n > election.MaxValue {
			err = fmt.Errorf("--value of %d bytes: want %d or fewer; announce where to find the rest", n, election.MaxValue)
		}
		if err != nil {
			return misuse(cmd, err)
		}
		return nil
	}
	cmd.RunE = func(*cobra.Command, []string) error { return e.run() }
	return cmd
}

func (e *elector) run() (err error) {
	if e.path, err = executable(e.argv[0]); err != nil {
		return err
	}
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(context.Background())
	defer e.cancel()
	e.signals = supervise.Catch()
	e.watch()
	if e.client, err = e.open(ctx, mastersPatience); err == nil {
		defer e.leave(e.client)
		e.warn(e.client)
		e.more("stands for election %q", e.name)
		// Run calls lead in this goroutine, which supervise needs.
		err = election.New(e.client, e.name, election.WithValue(e.value)).Run(ctx, e.lead)
	}
	e.unwatch()
	switch {
	case e.done:
		return e.failed
	case e.sig != 0:
		return interruptedBy(e.sig)
	}
	return e.why(err)
}

func (e *elector) watch() { e.stop = watch(e.signals, e.cancel) }

func (e *elector) unwatch() {
	if e.stop != nil {
		if sig := e.stop(); sig != 0 {
			e.sig = sig
		}
		e.stop = nil
	}
}

// errDone ends the election: the command has ended.
var errDone = errors.New("the command has ended")

// lead is one term. It returns nil to stand again.
func (e *elector) lead(ctx context.Context, term *election.Term) error {
	lease := redlock.LeaseFrom(ctx)
	err := e.lengthen(ctx, lease) // a signal ends it
	e.unwatch()
	defer e.watch()
	switch {
	case e.sig != 0:
		return nil
	case err != nil:
		e.say(said.LostTerm.With(term.Token(), strconv.Quote(e.name), err))
		return nil
	}
	e.more("leads %q, term %d", e.name, term.Token())
	ended, err := supervise.Run(supervise.Command{Path: e.path, Args: e.argv, Env: e.environment(lease)}, lease, e.ttl, e.signals, e.say)
	switch {
	case err != nil:
		e.failed = &exitError{supervise.ExitCannotExecute, said.CannotStart.With(err)}
	case ended.Lost != nil && ended.Asked != 0:
		e.sig = ended.Asked
		e.cancel()
		return nil
	case ended.Lost != nil:
		e.say(said.LostTerm.With(term.Token(), strconv.Quote(e.name), ended.Lost))
		return nil
	case ended.Code != exitOK:
		e.failed = &exitError{code: ended.Code}
	}
	e.done = true
	e.cancel() // the term may have been lost by now, and then an error would not end the election
	return errDone
}
