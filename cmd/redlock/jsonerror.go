// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// errorJSON is what --json writes when a command fails before it has a result.
type errorJSON struct {
	ExitCode int    `json:"exit_code"`
	Kind     string `json:"kind"`  // a word of kinds
	Error    string `json:"error"` // for people; it may change
}

// kinds are the words for exit codes. Scripts compare them, so they never change.
var kinds = map[int]string{
	exitRefused:    "refused",
	exitUsage:      "usage",
	exitMasters:    "masters",
	exitChanging:   "changing",
	exitNeedsInit:  "needs-init",
	exitSignal + 2: "interrupted",
}

// writeErrorJSON writes err as one JSON object, if the command line asks for JSON and nothing else was written.
func writeErrorJSON(w io.Writer, args []string, err error) {
	code := exitCode(err)
	var own *exitError
	if !wantsJSON(args) || errors.As(err, &own) && own.text == "" {
		return
	}
	kind, ok := kinds[code]
	if !ok {
		kind = "other"
	}
	_ = writeJSON(w, errorJSON{code, kind, plain(err)}) // if it cannot be written, standard error has it
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
