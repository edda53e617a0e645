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
