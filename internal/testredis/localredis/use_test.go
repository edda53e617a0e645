// SPDX-License-Identifier: Apache-2.0

package localredis

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// After Use a Restart starts the other program. A running server is not touched.
func TestUse_nextRestartStartsIt(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{})
	path, _, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	script := fmt.Sprintf("#!/bin/sh\necho >%s.ran\nexec %s \"$@\"\n", other, path)
	if err := os.WriteFile(other, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if s.Use(other) == nil {
		t.Error("a running server was given another program")
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Use(other); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other + ".ran"); err != nil {
		t.Error(err)
	}
}
