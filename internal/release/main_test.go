// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/release/proxy"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

// repository is a small one that stands for ours, committed, in the working folder.
func repository(t *testing.T) {
	t.Helper()
	needs.Program(t, "git")
	t.Chdir(t.TempDir())
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "tester")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	write(t, "go.mod", "module "+proxy.Root+"\n\ngo 1.25\n")
	write(t, "LICENSE", "as you like it\n")
	write(t, "README.md", "# small\n")
	write(t, "redlock/redlock.go", "package redlock\n\nconst Name = \"redlock\"\n")
	write(t, "cmd/redlock/main.go", "package main\n\nfunc main() { println(\"locks\") }\n")
	write(t, "own/go.mod", "module "+proxy.Root+"/own\n\ngo 1.25\n\nrequire "+proxy.Root+" v0.0.9\n")
	write(t, "own/own.go", "package own\n\nimport \""+proxy.Root+"/redlock\"\n\nconst Name = redlock.Name\n")
	write(t, "own/internal/half/go.mod", "module "+proxy.Root+"/own/internal/half\n\ngo 1.25\n")
	write(t, "own/internal/half/half.go", "package half\n")
	write(t, "go.work", "go 1.25\n\nuse (\n\t.\n\t./own\n\t./own/internal/half\n)\n\nreplace "+proxy.Root+" v0.0.9 => ./\n")
	write(t, "CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- It locks.\n\n## [0.0.9] - 2026-01-01\n\n- It began.\n")
	git(t, "init", "--quiet", "--initial-branch=main")
	git(t, "add", "--all")
	git(t, "commit", "--quiet", "-m", "all")
}

func TestChangelog_unreleasedMovesUnderTheVersion(t *testing.T) {
	at := time.Date(2026, 11, 24, 23, 0, 0, 0, time.UTC)
	changed, notes, err := changelog("# C\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n", "v0.2.0", at)
	want := "# C\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-24\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n"
	if err != nil || notes != "- new\n" || changed != want {
		t.Errorf("%v, notes %q, %q", err, notes, changed)
	}
}

// What is not ready is refused with a line that says what to do, and nothing changes.
func TestRun_notReady_refused(t *testing.T) {
	for want, spoil := range map[string]func(t *testing.T) (version string){
		`version "0.1.0": want one such as v0.1.0`:            func(*testing.T) string { return "0.1.0" },
		`version "v0.1": want one such as v0.1.0`:             func(*testing.T) string { return "v0.1" },
		`version "": want one such as v0.1.0`:                 func(*testing.T) string { return "" },
		"tag v0.1.0 exists: a version is released once":       func(t *testing.T) string { git(t, "tag", "v0.1.0"); return "v0.1.0" },
		"tag own/v0.1.0 exists: a version is released once":   func(t *testing.T) string { git(t, "tag", "own/v0.1.0"); return "v0.1.0" },
		"HEAD is on no branch":                                func(t *testing.T) string { git(t, "checkout", "--quiet", "--detach"); return "v0.1.0" },
		"the tree is not clean: commit or remove these first": func(t *testing.T) string { write(t, "new.go", "package x\n"); return "v0.1.0" },
		"own/go.mod has a replace": func(t *testing.T) string {
			write(t, "own/go.mod", "module "+proxy.Root+"/own\n\nreplace "+proxy.Root+" => ..\n")
			git(t, "commit", "--quiet", "-am", "replace")
			return "v0.1.0"
		},
		"go.work does not use ./more": func(t *testing.T) string {
			write(t, "more/go.mod", "module "+proxy.Root+"/more\n")
			git(t, "add", "--all")
			git(t, "commit", "--quiet", "-m", "more")
			return "v0.1.0"
		},
		"CHANGELOG.md has nothing under Unreleased": func(t *testing.T) string {
			write(t, "CHANGELOG.md", "## [Unreleased]\n\n## [0.0.9]\n\n- old\n")
			git(t, "commit", "--quiet", "-am", "nothing")
			return "v0.1.0"
		},
	} {
		t.Run(want, func(t *testing.T) {
			repository(t)
			version := spoil(t)
			before := git(t, "rev-parse", "HEAD") + git(t, "tag") + git(t, "worktree", "list")
			err := run(t.Context(), version, false, filepath.Join(t.TempDir(), "dist"), io.Discard)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			if after := git(t, "rev-parse", "HEAD") + git(t, "tag") + git(t, "worktree", "list"); after != before {
				t.Errorf("before %s, after %s", before, after)
			}
		})
	}
}

// A module that does not compile against the root as it will be published is refused: go.work hides that here.
func TestRun_nestedModuleBroken_refused(t *testing.T) {
	needs.Test(t)
	repository(t)
	write(t, "own/own.go", "package own\n\nimport \""+proxy.Root+"/redlock\"\n\nconst Name = redlock.NoSuchName\n")
	git(t, "commit", "--quiet", "-am", "broken")
	err := run(t.Context(), "v0.1.0", false, filepath.Join(t.TempDir(), "dist"), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "NoSuchName") || git(t, "tag") != "" {
		t.Errorf("got %v, tags %q", err, git(t, "tag"))
	}
}

// A dry run changes nothing, twice the same archives come out, and the release after it has commit, tags, versions and sums.
func TestRun_whole(t *testing.T) {
	needs.Test(t)
	repository(t)
	was := platforms
	t.Cleanup(func() { platforms = was })
	platforms = slices.DeleteFunc(slices.Clone(was), func(p platform) bool { return p.os != runtime.GOOS || p.arch != runtime.GOARCH })
	if len(platforms) == 0 {
		t.Skip("no archive is made for this platform")
	}
	head := git(t, "rev-parse", "HEAD")
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	must(t, run(t.Context(), "v0.1.0", true, first, io.Discard))
	if git(t, "rev-parse", "HEAD") != head || git(t, "tag") != "" || git(t, "status", "--porcelain") != "" {
		t.Fatal("a dry run changed the repository")
	}
	must(t, run(t.Context(), "v0.1.0", false, second, io.Discard))
	sums := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		must(t, err)
		return string(text)
	}
	if sums(first) != sums(second) || strings.Count(sums(first), "\n") != 2 || !strings.Contains(sums(first), ".cdx.json") {
		t.Errorf("sums\n%sand\n%s", sums(first), sums(second))
	}
	if tags := git(t, "tag"); tags != "own/v0.1.0\nv0.1.0" {
		t.Errorf("tags %q", tags)
	}
	if git(t, "rev-parse", "v0.1.0^{commit}") != git(t, "rev-parse", "HEAD") || git(t, "rev-parse", "HEAD~1") != head || git(t, "status", "--porcelain") != "" {
		t.Error("the branch is not one commit further, or the tag is elsewhere")
	}
	for file, want := range map[string]string{"go.work": proxy.Root + " v0.1.0 => ./", "own/go.mod": proxy.Root + " v0.1.0", "own/go.sum": proxy.Root + " v0.1.0 h1:", "CHANGELOG.md": "## [0.1.0] - "} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, has no %q:\n%s", file, err, want, text)
		}
	}
	if notes, err := os.ReadFile(filepath.Join(second, "notes.md")); err != nil || string(notes) != "- It locks.\n" {
		t.Errorf("notes %q, %v", notes, err)
	}
	must(t, os.Remove("own/go.sum"))
	if err := run(t.Context(), "v0.1.0", true, first, io.Discard); err == nil {
		t.Error("a version was released twice")
	}
}
