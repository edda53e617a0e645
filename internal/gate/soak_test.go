// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// A part that has passed is skipped only for the same sources and the same budget.
func TestSoakPart_passedBefore_onlyTheSameSourcesAndBudget(t *testing.T) {
	needs.Program(t, "git")
	repository(t, map[string]string{"a.go": "package a\n", ".gitignore": "/ignored\n"})
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) { must(t, os.WriteFile(name, []byte(text), 0o644)) }
	root, err := os.Getwd()
	must(t, err)
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	o := options{dir: filepath.Join(t.TempDir(), "soak"), budget: time.Hour}
	must(t, os.MkdirAll(o.dir, 0o755))
	write(filepath.Join(o.dir, "true.passed"), "") // of an older gate, which did not say what it had tested
	for _, step := range []struct {
		name   string
		change func()
		before bool
	}{
		{"a marker that says nothing", func() {}, false},
		{"again", func() {}, true},
		{"a file that git ignores", func() { write("ignored", "x") }, true},
		{"a change", func() { write("a.go", "package a // changed\n") }, false},
		{"the change again", func() {}, true},
		{"a new file", func() { write("b.go", "package a\n") }, false},
		{"a change of the new file", func() { write("b.go", "package a // changed\n") }, false},
		{"a new name of the new file", func() { must(t, os.Rename("b.go", "c.go")) }, false},
		{"a commit", func() { git("add", "."); git("commit", "-q", "-m", "second") }, false},
		{"another budget", func() { o.budget = 2 * time.Hour }, false},
		{"logs in the checkout", func() { o.dir = filepath.Join(root, "logs"); must(t, os.MkdirAll(o.dir, 0o755)) }, false},
		{"its own logs", func() {}, true},
		{"no checkout of git", func() { must(t, os.RemoveAll(".git")) }, false},
		{"still none", func() {}, false},
	} {
		step.change()
		g, err := open(io.Discard)
		must(t, err)
		note, err := g.soakPart(t.Context(), part{"true", 0.1, command{name: "true", args: []string{"true"}}}, time.Minute, o)
		must(t, err)
		if strings.HasPrefix(note, "passed before ") != step.before || !strings.HasPrefix(note, "passed ") {
			t.Errorf("%s: %s", step.name, note)
		}
	}
}
