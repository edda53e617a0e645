// SPDX-License-Identifier: Apache-2.0

// Package chaoscli is the command line of the chaos harness, "redlock-bench chaos".
//
// Run returns the exit code: 0 if every promise was kept, 1 if a promise was broken, 2 if the command line is wrong, and 3 if nothing could
// be judged, for example after an interruption, or if every promise was kept and a file could not be written. It is 141 if nobody reads the output any
// more, as behind "| head". Run leaves only files: those that the command line names, and the report and history of a run that failed. The program
// must call chaos.Serve before anything else.
package chaoscli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/internal/interrupt"
	"github.com/redlock-go/redlock/internal/redact"
)

// Exit codes.
const (
	exitHeld      = 0
	exitViolation = 1
	exitUsage     = 2
	exitNothing   = 3
	exitUnread    = 128 + int(syscall.SIGPIPE)
)

// command is a subcommand. define defines its flags and returns the function that runs it.
type command struct {
	name, args, summary string
	define              func(fs *flag.FlagSet) func(ctx context.Context, c *console, args []string) error
}

func commands() []command {
	return []command{
		{"run", "", "inject faults into masters and clients, and judge the history (the default)", defineRun},
		{"failover", "", "show that a failover of one master breaks a lock, and that five masters keep it", defineFailover},
		{"check", "HISTORY...", "judge the recorded history of a run", defineCheck},
		{"list", "", "list the nemeses, workloads and checkers", defineList},
	}
}

// console is where a command writes: results go to out, everything else to err.
type console struct{ out, err io.Writer }

// errViolation says that a run broke a promise. The command has printed which.
var errViolation = errors.New("violation")

// end returns how a command ends that has printed its verdict. err is of the files that it could not write, or of what it could not remove:
// it is printed, and does not hide a broken promise.
func (c *console) end(held bool, err error) error {
	if held {
		return err
	}
	if err != nil {
		c.say(err)
	}
	return errViolation
}

// say prints an error. That it is of package chaos is said by the name of the command.
func (c *console) say(err error) {
	fmt.Fprintf(c.err, "redlock-bench chaos: %s\n", strings.TrimPrefix(err.Error(), "chaos: "))
}

// usageError says what is wrong with the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run runs "redlock-bench chaos" with args and returns the exit code. If ctx ends, or stdout cannot
// be written, Run stops, cleans up and returns 3, or 141 without a word if nobody reads it any more.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, out, stop := interrupt.Output(ctx, stdout)
	defer stop()
	c := &console{out, stderr}
	err := start(ctx, c, args)
	var usage usageError
	var left chaos.LeftError
	unwritten, code := interrupt.Unwritten(ctx), exitNothing
	switch {
	case err == nil && unwritten == nil:
		return exitHeld
	case errors.Is(err, errViolation):
		return exitViolation
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "redlock-bench chaos: %s\n", redact.Text(err.Error())) // a URL may stand in the wrong place
		return exitUsage
	case errors.Is(unwritten, syscall.EPIPE): // whoever read has seen enough
		code = exitUnread
	case unwritten != nil:
		fmt.Fprintf(stderr, "redlock-bench chaos: the output cannot be written: %v\n", unwritten)
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "redlock-bench chaos: interrupted; nothing was judged. Run it again, or for a shorter --duration")
	default:
		c.say(err)
		return exitNothing
	}
	if errors.As(err, &left) {
		fmt.Fprintf(stderr, "redlock-bench chaos: could not clean up: %v\n", left)
	}
	return code
}

// lookUp finds the command that args name, and its own arguments.
func lookUp(args []string) (command, []string, error) {
	all := commands()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return all[0], args, nil
	}
	for _, cmd := range all {
		if cmd.name == args[0] {
			return cmd, args[1:], nil
		}
	}
	return command{}, nil, usagef("no command %q: want one of run, failover, check, list", args[0])
}

func start(ctx context.Context, c *console, args []string) error {
	cmd, args, err := lookUp(args)
	if err != nil {
		return err
	}
	fs := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Run prints the error
	run := cmd.define(fs)
	err = fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		c.help(cmd, fs)
		return nil
	case err != nil:
		return usagef("%v (see redlock-bench chaos %s --help)", err, cmd.name)
	case cmd.args == "" && fs.NArg() > 0:
		return usagef("words that are no flags: %d; chaos %s takes flags only", fs.NArg(), cmd.name) // they may be passwords
	case slices.ContainsFunc(fs.Args(), func(word string) bool { return len(word) > 1 && word[0] == '-' }):
		return usagef("flags go before the files: redlock-bench chaos %s [--flag value ...] %s", cmd.name, cmd.args)
	}
	return run(ctx, c, fs.Args())
}

const longest = 8760 * time.Hour // as a client takes

// checkTimes checks --duration, --ttl and --max-ttl.
func (f *runFlags) checkTimes(driver cluster.Driver) error {
	switch {
	case f.duration < time.Second:
		return usagef("--duration %v: want a second or more", f.duration)
	case f.ttl < 100*time.Millisecond:
		return usagef("--ttl %v: want 100ms or more", f.ttl)
	case f.maxTTL > longest:
		return usagef("--max-ttl %v: want %v or less", f.maxTTL, longest)
	case driver != chaos.Sim && f.ttl > chaos.LongestTTL:
		return usagef("--ttl %v: want %v or less: at its end the run waits for it. --driver sim does not wait", f.ttl, chaos.LongestTTL)
	case driver != chaos.Sim && f.maxTTL > chaos.LongestMaxTTL:
		return usagef("--max-ttl %v: want %v or less: at its end the run waits for it. --driver sim does not wait", f.maxTTL, chaos.LongestMaxTTL)
	case f.maxTTL < f.ttl:
		return usagef("--ttl %v, --max-ttl %v: want a maximum that is not less", f.ttl, f.maxTTL)
	}
	return nil
}

// parseDriver reads --driver. image and servers are what --image and --servers say.
func parseDriver(s, image, servers string) (cluster.Driver, error) {
	d := cluster.Driver(s)
	switch d {
	case cluster.Auto, cluster.Docker, cluster.Process, chaos.Sim:
	default:
		return "", usagef("--driver %q: want docker, process or sim", s)
	}
	if image != "" && d != chaos.Sim && (d == cluster.Process || servers != "") {
		return "", usagef("--image %s: only --driver docker runs an image: leave it out, or --driver process and --servers", image)
	}
	return d, nil
}
