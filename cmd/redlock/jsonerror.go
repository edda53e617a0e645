// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// failure is in each object that --json writes, and is empty when the exit code is 0.
type failure struct {
	Kind  string `json:"kind,omitempty"`  // a word of kinds, for the exit code
	Error string `json:"error,omitempty"` // for people, if the command failed; it may change
}

// failureOf is the failure of a command with that exit code, and of err, which may be nil.
func failureOf(code int, err error) (f failure) {
	if code != exitOK {
		var known bool
		if f.Kind, known = kinds[code]; !known {
			f.Kind = "other"
		}
	}
	if err != nil {
		f.Error = plain(err)
	}
	return f
}

// errorJSON is what --json writes when a command fails before it has a result.
type errorJSON struct {
	ExitCode int `json:"exit_code"`
	failure
}

// kinds are the words for exit codes. Scripts compare them, so they never change.
var kinds = map[int]string{
	exitRefused:      "refused",
	exitUsage:        "usage",
	exitMasters:      "masters",
	exitChanging:     "changing",
	exitNeedsInit:    "needs-init",
	exitRecovers:     "recovering",
	exitNeedsMasters: "needs-masters",
	exitTooFewVote:   "too-few-vote",
	exitSignal + 2:   "interrupted",
}

// writeErrorJSON writes err as one JSON object, if the command line asks for JSON and nothing else was written.
func writeErrorJSON(w io.Writer, args []string, err error) {
	code := exitCode(err)
	var own *exitError
	if !wantsJSON(args) || errors.As(err, &own) && own.text == "" {
		return
	}
	_ = writeJSON(w, errorJSON{code, failureOf(code, err)}) // if it cannot be written, standard error has it
}

// wantsJSON reports whether args ask for JSON. It reads them itself, because they may be what cannot be parsed.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	if len(args) > 0 && (args[0] == "run" || args[0] == "elect") { // their output is that of their command
		return false
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		value, ok := strings.CutPrefix(arg, "--json=")
		wanted, _ := strconv.ParseBool(value)
		return arg == "--json" || ok && wanted
	})
}
