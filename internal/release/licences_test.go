// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// allowed are phrases of the licences that a program under Apache-2.0 may link.
var allowed = []string{
	"Apache License", "MIT License", "Permission is hereby granted, free of charge", "Redistribution and use in source and binary forms",
	"Mozilla Public License, version 2.0", "Mozilla Public License, Version 2.0",
}

// licence returns the phrase that the licence in a module's folder is known by, or "" if it has none that is allowed.
func licence(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "LICEN*"))
	must(t, err)
	more, err := filepath.Glob(filepath.Join(dir, "COPYING*"))
	must(t, err)
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		must(t, err)
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, phrase := range allowed {
			if strings.Contains(words, phrase) {
				return phrase
			}
		}
	}
	return ""
}

// Every module that a package or a test of the root needs is under a licence that Apache-2.0 goes with.
func TestLicences_ofAllModules_allowed(t *testing.T) {
	needs.Test(t)
	cmd := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", "../../...")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if module, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !seen[module] {
			seen[module] = true
			if licence(t, dir) == "" {
				t.Errorf("%s: no licence in %s that is allowed", module, dir)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d modules", len(seen))
	}
	odd := t.TempDir()
	write(t, filepath.Join(odd, "LICENSE"), "GNU GENERAL PUBLIC LICENSE Version 3\n")
	if got := licence(t, odd); got != "" {
		t.Errorf("the GPL passes as %q", got)
	}
}
