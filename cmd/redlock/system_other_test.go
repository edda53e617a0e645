// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"os"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// openTerminal skips the test: other systems have other calls for a terminal.
func openTerminal(t testing.TB) (person, screen *os.File) {
	t.Helper()
	needs.Linux(t, "opens /dev/ptmx")
	return nil, nil
}

// noFiles skips the test: other systems set no limit of another process.
func noFiles(t testing.TB, _ int) (again func()) {
	t.Helper()
	needs.Linux(t, "sets a limit of another process")
	return nil
}
