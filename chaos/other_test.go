// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// otherVar names the commit or tag of the other build for rolling-upgrade, in the place of the one that earlier chooses.
const otherVar = "REDLOCK_OTHER"

// otherBuild makes a client for rolling-upgrade, of the first tree of earlier that builds, else of this one.
func otherBuild(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "client")
	commits := []string{os.Getenv(otherVar)}
	if commits[0] == "" {
		commits = earlier(t, "..")
	}
	for _, commit := range commits {
		dir := t.TempDir()
		err := checkout(t, "..", commit, dir)
		if err == nil {
			err = buildClient(t, dir, bin)
		}
		if err == nil {
			t.Logf("the other build is of %s", commit)
			return bin
		}
		t.Logf("no build of %s: %v", commit, err)
	}
	if os.Getenv(otherVar) != "" {
		t.Fatalf("%s=%s cannot be built", otherVar, os.Getenv(otherVar))
	}
	t.Log("no earlier version to mix in")
	if err := buildClient(t, "..", bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

// buildClient builds the least program that can be a client, of the module in dir.
func buildClient(t *testing.T, dir, bin string) error {
	file := filepath.Join(t.TempDir(), "main.go")
	const program = "package main\n\nimport \"github.com/redlock-go/redlock/chaos/workload\"\n\nfunc main() { workload.Serve() }\n"
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		return err
	}
	// Without paths in it: what was compiled of this commit in another folder, by the last run, is not compiled again.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, file)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// earlier returns what rolling-upgrade upgrades from: the last release, which is the newest tag such as v1.2.3 before the present commit, and
// the commit before the last change of the library. It leaves out what git does not know.
func earlier(t *testing.T, repo string) (commits []string) {
	t.Helper()
	for _, args := range [][]string{
		{"describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD"},
		{"log", "-n", "1", "--format=%P", "--", ":(glob)node/*.go", ":(glob)node/lua/**", ":(glob)redlock/*.go", ":(glob)multilock/*.go",
			":(exclude)*_test.go"},
	} {
		out, err := git(t, repo, args...)
		if words := strings.Fields(string(out)); err == nil && len(words) > 0 {
			commits = append(commits, words[0])
		}
	}
	return commits
}

// checkout puts the tree of a commit into dir.
func checkout(t *testing.T, repo, commit, dir string) error {
	archive, err := git(t, repo, "archive", "--format=tar", commit)
	if err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(archive)
	return cmd.Run()
}

func git(t *testing.T, repo string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = repo
	return cmd.Output()
}

// The other build is of the last release as soon as there is one.
func TestEarlier_releaseFirst(t *testing.T) {
	needs.Program(t, "git")
	repo := t.TempDir()
	do := func(args ...string) string {
		t.Helper()
		out, err := git(t, repo, append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false"}, args...)...)
		if err != nil {
			t.Fatalf("git %s: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	change := func(text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(repo, "redlock"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, "redlock", "a.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		do("add", "-A")
		do("commit", "-q", "-m", text)
		return do("rev-parse", "HEAD")
	}
	want := func(commits ...string) {
		t.Helper()
		if got := earlier(t, repo); !slices.Equal(got, commits) {
			t.Errorf("%v, want %v", got, commits)
		}
	}
	do("init", "-q")
	first := change("package one")
	want()
	second := change("package two")
	want(first)
	do("tag", "v0.1.0", first)
	do("tag", "other", second)
	want("v0.1.0", first)
	change("package three")
	want("v0.1.0", second)
	do("tag", "v0.2.0", second)
	want("v0.2.0", second)
	dir := t.TempDir()
	if err := checkout(t, repo, "v0.1.0", dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "redlock", "a.go")); string(b) != "package one" {
		t.Errorf("v0.1.0 is %q, %v", b, err)
	}
}
