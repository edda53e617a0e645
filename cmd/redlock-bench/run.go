// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/redlock-go/redlock/chaos/chaoscli"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/crowd"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/internal/interrupt"
	"github.com/redlock-go/redlock/internal/redact"
	"github.com/redlock-go/redlock/internal/text"
)

// command is one subcommand. To add one, write a type and a line in commands.
type command interface {
	// A command that takes more than flags has a method operands.

	// define declares the flags, with their defaults.
	define(fs *flag.FlagSet)
	// check judges the values of the flags; its error is a usage error.
	check() error
	// run does the work. Its error says how it ended: see exitCode.
	run(ctx context.Context, o output) error
}

// entry is a subcommand in the table.
type entry struct {
	name, summary string
	help          string // what the flags do not say
	make          func() command
}

// commands is the table of subcommands. The first is what runs when none is named.
func commands() []entry {
	return []entry{
		{"tour", "a short latency and a short contention run (the default)", tourHelp, func() command { return &tour{} }},
		{"latency", "uncontended acquire and release, beside the floor", latencyHelp, func() command { return &latency{} }},
		{"contention", "one hot lock and many waiters, checked for overlaps", contentionHelp, func() command { return &contention{} }},
		{"outage", "masters that die, freeze and return under load", outageHelp, func() command { return &outage{} }},
		{"compare", "two builds: medians, intervals, and what is noise", compareHelp, func() command { return &comparison{} }},
		{"chaos", "the lock under injected faults, and the verdict of checkers", "", nil}, // reads its own command line: see run
	}
}

// output is where a command writes. err is also for what is no result: progress and complaints.
type output struct{ out, err io.Writer }

// errViolation ends a run in which two holders were seen at once. It was printed already.
var errViolation = errors.New("violation")

// usageError is a command line that cannot work.
type usageError struct{ error }

// outputError is why what was found could not be written. Every error that is none of these three is the masters': nothing else here can fail.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

const (
	exitOK          = 0
	exitViolation   = 1
	exitUsage       = 2
	exitMasters     = 3
	exitOutput      = 73                        // EX_CANTCREAT of sysexits.h
	exitInterrupted = 128 + int(syscall.SIGINT) // what a shell makes of it
	exitUnread      = 128 + int(syscall.SIGPIPE)
)

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errViolation):
		return exitViolation
	case errors.As(err, new(outputError)) && errors.Is(err, syscall.EPIPE):
		return exitUnread
	case errors.As(err, new(outputError)):
		return exitOutput
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitMasters
}

// run is the whole program but for signals and exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "chaos" {
		return chaoscli.Run(ctx, args[1:], stdout, stderr)
	}
	ctx, out, stop := interrupt.Output(ctx, stdout)
	defer stop()
	o := output{out: out, err: stderr}
	e, args, err := lookUp(args)
	if err == nil {
		err = e.start(ctx, args, o)
	}
	if unwritten := interrupt.Unwritten(ctx); unwritten != nil && !errors.Is(err, errViolation) {
		err = outputError{fmt.Errorf("the output cannot be written: %w", unwritten)}
	}
	switch {
	case err == nil, errors.Is(err, errViolation), exitCode(err) == exitUnread: // whoever read has seen enough
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "redlock-bench: interrupted")
	default:
		said := masters.InFlags(text.OneLine(err))
		if errors.As(err, new(usageError)) {
			said = redact.Text(said) // a URL may stand in the wrong place
		}
		fmt.Fprintf(stderr, "redlock-bench: %s\n", said)
	}
	return exitCode(err)
}

// lookUp finds the subcommand. Flags without one are the tour's.
func lookUp(args []string) (entry, []string, error) {
	table := commands()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") && !isHelp(args[0]) {
		return table[0], args, nil
	}
	if isHelp(args[0]) || args[0] == "help" {
		return entry{help: overview(table)}, nil, nil
	}
	for _, e := range append(table, entry{name: crowd.Contender, make: func() command { return contender{} }}) {
		if e.name == args[0] {
			return e, args[1:], nil
		}
	}
	return entry{}, nil, usageError{fmt.Errorf("no command %q (see redlock-bench --help; operators use redlock)", args[0])}
}

func isHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// start reads the flags and runs the command. An entry that makes none only has a help text.
func (e entry) start(ctx context.Context, args []string, o output) error {
	if e.make == nil {
		_, err := io.WriteString(o.out, e.help)
		return err
	}
	cmd := e.make()
	fs := flag.NewFlagSet(e.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error
	cmd.define(fs)
	err := parse(cmd, fs, args)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(o.out, e.manual(fs))
		return err
	}
	if err != nil {
		return usageError{fmt.Errorf("%w (see redlock-bench %s --help)", err, e.name)}
	}
	return cmd.run(ctx, o)
}

func parse(cmd command, fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if takes, ok := cmd.(interface{ operands(args []string) error }); ok {
		if err := takes.operands(fs.Args()); err != nil {
			return err
		}
	} else if fs.NArg() > 0 {
		return fmt.Errorf("words that are no flags: %d; this command takes flags only", fs.NArg()) // they may be passwords
	}
	return cmd.check()
}
