// SPDX-License-Identifier: Apache-2.0

// Command redlock takes locks for scripts, and sets up, watches and changes the masters.
//
//	redlock run NAME -- cmd args     run a command while it holds a lock
//	redlock elect NAME -- cmd args   run a command on one of several hosts, and on another one when that fails
//	redlock inspect NAME             who holds a lock and who waits for it
//	redlock list [PREFIX]            the locks that are held
//	redlock force-unlock NAME        take a lock away from a holder that is stuck
//	redlock doctor                   what the masters are, and what the lock would refuse
//	redlock init                     let the masters of a new list begin to vote
//	redlock status                   what the masters are in; with --wait, recover them
//	redlock reconfigure              move the locks to another list of masters
//	redlock cancel                   give up a change of masters
//	redlock version                  the version of this program
//
// Every command has --help. Its exit codes are there, and in docs/command.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock/internal/redact"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/text"
)

func main() {
	hidden()
	logging.Disable() // go-redis tells stderr of each failed dial; it is process-global, so only a program may do this
	// Caught, not ignored: that would be inherited by the command of run. A reader that has gone is an error of the write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// output is where a command writes. err is for what is no result: progress and complaints.
type output struct{ out, err io.Writer }

// results is a writer that remembers its first error, so that a command need not look at each write.
type results struct {
	io.Writer
	began bool // something was written
	err   error
}

func (r *results) Write(p []byte) (int, error) {
	r.began = true
	n, err := r.Writer.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// Exit codes. What only one command has is in its help.
const (
	exitOK      = 0
	exitRefused = 1
	exitUsage   = 2
	exitMasters = 3
	exitOutput  = 73  // EX_CANTCREAT of sysexits.h
	exitSignal  = 128 // plus the number of the signal, as a shell has it
)

// usageError is a command line that cannot work.
type usageError struct{ error }

// misuse is a usageError of a command. Where a URL stands in the wrong place, its password is not shown.
func misuse(cmd *cobra.Command, err error) error {
	said := ofGo.ReplaceAllString(err.Error(), `for "$1" flag: `)
	return usageError{fmt.Errorf("%s (see %s --help)", redact.Text(said), cmd.CommandPath())}
}

// ofGo is what the packages of Go say of themselves before what is wrong with a flag.
var ofGo = regexp.MustCompile(`for "([^"]*)" flag: (?:time: |strconv\.[A-Za-z]+: parsing "(?:[^"\\]|\\.)*": )`)

// exitError ends the program with its own exit code. Its text was printed already, when it is empty.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func exitCode(err error) int {
	var usage usageError
	var own *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitSignal + int(syscall.SIGINT)
	}
	return exitMasters
}

// run is the whole program but for the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	written := &results{Writer: stdout}
	o := output{out: written, err: stderr}
	root, began := newRoot(o)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err != nil && !*began {
		err = misuse(cmd, err)
	}
	if err != nil && !written.began {
		writeErrorJSON(written, args, err)
	}
	switch {
	case errors.Is(written.err, syscall.EPIPE):
		err = &exitError{code: exitSignal + int(syscall.SIGPIPE)} // as a program that SIGPIPE ends: the reader has seen enough
	case written.err != nil:
		err = &exitError{exitOutput, said.CannotWrite.With(written.err)}
	}
	var own *exitError
	switch {
	case err == nil, errors.As(err, &own) && own.text == "":
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "redlock: "+said.Interrupted.Text)
	default:
		complain(stderr, cmd, "redlock: "+plain(err))
	}
	return exitCode(err)
}

// complain prints an error. A long one has line breaks, except where the lines of another command are around it.
func complain(w io.Writer, cmd *cobra.Command, said string) {
	if len(said) > longLine && cmd.Name() != "run" && cmd.Name() != "elect" {
		text.Say(w, said)
		return
	}
	fmt.Fprintln(w, said)
}

// longLine is how long a line may be that programs may read.
const longLine = 200

// plain is err's text in one line, without the library's name before each part: the program has the same. Where it names a function of Go for
// which there is a command or a flag, it names that.
func plain(err error) string {
	s := libraryNames.Replace(strings.TrimPrefix(text.OneLine(err), "redlock: "))
	return nodeCount.ReplaceAllString(s, "--node-count $1")
}

var libraryNames = strings.NewReplacer(": redlock: ", ": ", "; redlock: ", "; ", "admin.Reconfigure", "redlock reconfigure")

// nodeCount is the option that the flag --node-count is, in errors of the library.
var nodeCount = regexp.MustCompile(`WithNodeCount\((\d+)\)`)

// newRoot returns the commands. began becomes true when the command line was good and a command begins: every error before that is one of
// the command line.
func newRoot(o output) (root *cobra.Command, began *bool) {
	began = new(bool)
	root = &cobra.Command{
		Use:   "redlock",
		Short: "redlock takes locks for scripts, and looks after the masters",
		Long: `redlock takes locks for scripts, and looks after the masters.

The masters are named by --nodes, --nodes-file, the environment variable
REDLOCK_NODES or REDLOCK_NODES_FILE, the first of these that is there. A list has
commas between its URLs. A file has one URL a line, and lines that begin with #
are comments. Prefer the file or the variable where URLs have passwords: other
users of the machine can read command lines. For masters with TLS, --tls-cert,
--tls-key, --tls-ca and --tls-server-name stand for each rediss:// URL that has
no such parameters, and so do REDLOCK_TLS_CERT, REDLOCK_TLS_KEY, REDLOCK_TLS_CA
and REDLOCK_TLS_SERVER_NAME. For a whole Redis Cluster, as OpenCluster takes it,
give --cluster URL or set REDLOCK_CLUSTER.

exit code: 0 fine, 2 usage, 3 masters not available, 73 the output cannot be
written (a full disk), 130 interrupted; each command's help has the others.`,
		Version:            version(),
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
		PersistentPreRun:   func(*cobra.Command, []string) { *began = true },
	}
	root.SetOut(o.out)
	root.SetErr(o.err)
	root.AddCommand(locking(o)...)
	root.AddCommand(operations(o)...)
	root.AddCommand(versionCommand(o))
	strictWords(root)
	return root, began
}

// strictWords has a word that names nothing be an error of the command line for cobra's own commands too: help and completion print a help
// text then, and end well.
func strictWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Long, cmd.Example = "help prints the help of a command, as its --help does.\n\nexit code: 0 fine, 2 there is no such command.", "  redlock help run"
			cmd.Args = func(_ *cobra.Command, words []string) error {
				topic, left, err := root.Find(words)
				if err == nil && len(left) > 0 {
					err = fmt.Errorf("unknown command %q for %q", left[0], topic.CommandPath())
				}
				return err
			}
		case "completion":
			explainCompletion(cmd)
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // what runs has its words checked
		}
	}
}

// explainCompletion has the help of completion say what that of every command does.
func explainCompletion(cmd *cobra.Command) {
	const codes = "\n\nexit code: 0 fine, 2 usage, 73 the output cannot be written."
	cmd.Long = "completion prints a script that completes the words and flags of redlock in your\nshell. The help of each shell says where to put it." + codes
	cmd.Example = `  redlock completion bash > /etc/bash_completion.d/redlock
  source <(redlock completion bash)`
	for _, shell := range cmd.Commands() {
		shell.Long = strings.TrimSpace(shell.Long) + codes
		shell.Example = "  redlock completion " + shell.Name()
	}
}
