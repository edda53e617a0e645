// SPDX-License-Identifier: Apache-2.0

// Command release makes a release of all modules of this repository in lockstep.
//
//	release -version v0.1.0 [-dry] [-out dist]
//
// It works in a worktree of its own. There it sets the version that nested modules require, tidies them against the root as it will be
// published, moves the changelog's Unreleased under the version, builds archives as go install builds the command, and makes the commit. Only at
// the end, and not with -dry, the branch moves to that commit and the tags are set. It pushes nothing.
//
// It ends with 1 if something is not ready, and changes nothing then.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/release/proxy"
)

func main() {
	version := flag.String("version", "", "the version, such as v0.1.0")
	dry := flag.Bool("dry", false, "do everything but moving the branch and setting tags")
	out := flag.String("out", "dist", "where archives, checksums and notes go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *version, *dry, *out, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is one run.
type release struct {
	ctx     context.Context
	say     io.Writer
	version string
	root    string // the checkout
	tree    string // the worktree of the release
	scratch string // a proxy that has its modules, and what the go command unpacks
	out     string
	at      time.Time // the time of the commit that is released: archives have it
	nested  []string
}

func run(ctx context.Context, version string, dry bool, out string, say io.Writer) (err error) {
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	r := &release{ctx: ctx, say: say, version: version, root: root, out: out}
	if err := r.ready(); err != nil {
		return err
	}
	if r.scratch, err = os.MkdirTemp("", "redlock-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.clean()) }()
	r.tree = filepath.Join(r.scratch, "tree")
	if err := r.git(r.root, "worktree", "add", "--quiet", "--detach", r.tree, "HEAD"); err != nil {
		return err
	}
	commit, err := r.prepare()
	if err != nil {
		return err
	}
	if err := r.archives(); err != nil {
		return err
	}
	if dry {
		fmt.Fprintf(say, "dry run: %s is ready; nothing was changed but %s\n", version, r.out)
		return nil
	}
	return r.finish(commit)
}

func (r *release) clean() error {
	err := exec.Command("git", "-C", r.root, "worktree", "remove", "--force", r.tree).Run()
	return errors.Join(err, os.RemoveAll(r.scratch))
}

var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// ready says what is missing for a release, before anything is touched.
func (r *release) ready() error {
	if !semver.MatchString(r.version) {
		return fmt.Errorf("version %q: want one such as v0.1.0", r.version)
	}
	status, err := output(r.ctx, r.root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if status != "" {
		return fmt.Errorf("the tree is not clean: commit or remove these first:\n%s", status)
	}
	if _, err := output(r.ctx, r.root, nil, "git", "symbolic-ref", "--quiet", "HEAD"); err != nil {
		return errors.New("HEAD is on no branch: check out the one that is released")
	}
	if r.nested, err = proxy.Nested(r.root); err != nil {
		return err
	}
	for _, tag := range r.tags() {
		if _, err := output(r.ctx, r.root, nil, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+tag); err == nil {
			return fmt.Errorf("tag %s exists: a version is released once", tag)
		}
	}
	if err := r.joined(); err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if _, _, err := changelog(string(changes), r.version, r.at); err != nil {
		return err
	}
	seconds, err := output(r.ctx, r.root, nil, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	r.at, err = time.Parse(time.RFC3339, seconds)
	return err
}

// joined checks that go.work names each nested module, and that no module has a replace, which programs that require it would not see.
func (r *release) joined() error {
	work, err := os.ReadFile(filepath.Join(r.root, "go.work"))
	if err != nil {
		return err
	}
	for _, dir := range append([]string{"."}, r.nested...) {
		if dir != "." && !strings.Contains(string(work), "\t./"+dir+"\n") {
			return fmt.Errorf("go.work does not use ./%s", dir)
		}
		mod, err := os.ReadFile(filepath.Join(r.root, dir, "go.mod"))
		if err != nil {
			return err
		}
		if regexp.MustCompile(`(?m)^\s*replace\b`).Match(mod) {
			return fmt.Errorf("%s/go.mod has a replace: who requires the module would not get it", dir)
		}
	}
	return nil
}

// tags are the root's and one for each nested module that others can require: not those below a folder internal.
func (r *release) tags() []string {
	tags := []string{r.version}
	for _, dir := range r.nested {
		if !slices.Contains(strings.Split(dir, "/"), "internal") {
			tags = append(tags, dir+"/"+r.version)
		}
	}
	return tags
}

// unreleased is the heading of what is not released yet.
const unreleased = "## [Unreleased]\n"

// changelog moves what is unreleased under the version, and returns it as the notes of the release.
func changelog(text, version string, at time.Time) (changed, notes string, err error) {
	before, rest, ok := strings.Cut(text, unreleased)
	if !ok {
		return "", "", fmt.Errorf("CHANGELOG.md has no %q", strings.TrimSpace(unreleased))
	}
	notes, older, _ := strings.Cut(rest, "\n## ")
	if notes = strings.TrimSpace(notes); notes == "" {
		return "", "", errors.New("CHANGELOG.md has nothing under Unreleased: say what the release has")
	}
	changed = before + unreleased + "\n## [" + strings.TrimPrefix(version, "v") + "] - " + at.UTC().Format(time.DateOnly) + "\n\n" + notes + "\n"
	if older != "" {
		changed += "\n## " + older
	}
	return changed, notes + "\n", nil
}

// prepare changes the worktree into what is released, checks it, and commits it.
func (r *release) prepare() (commit string, err error) {
	file := filepath.Join(r.tree, "CHANGELOG.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed, notes, err := changelog(string(text), r.version, r.at)
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(file, []byte(changed), 0o644), os.MkdirAll(r.out, 0o755)); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(r.out, "notes.md"), []byte(notes), 0o644); err != nil {
		return "", err
	}
	if err := r.setVersion(); err != nil {
		return "", err
	}
	if err := r.check(); err != nil {
		return "", err
	}
	if err := errors.Join(r.git(r.tree, "add", "--all"), r.git(r.tree, "commit", "--quiet", "-m", "release: "+r.version)); err != nil {
		return "", err
	}
	return output(r.ctx, r.tree, nil, "git", "rev-parse", "HEAD")
}

var required = regexp.MustCompile(`(?m)^(replace ` + regexp.QuoteMeta(proxy.Root) + `) v\S+ (=> \./)$`)

// setVersion makes go.work and the nested modules ask for the root at the version, and their go.sum know it.
func (r *release) setVersion() error {
	file := filepath.Join(r.tree, "go.work")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !required.Match(text) {
		return fmt.Errorf("go.work has no line %q", "replace "+proxy.Root+" VERSION => ./")
	}
	if err := os.WriteFile(file, required.ReplaceAll(text, []byte("$1 "+r.version+" $2")), 0o644); err != nil {
		return err
	}
	env, err := r.serve(".")
	if err != nil {
		return err
	}
	for _, dir := range r.nested {
		folder := filepath.Join(r.tree, dir)
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err != nil {
			return err
		}
		if !bytes.Contains(mod, []byte(proxy.Root+" v")) {
			continue // it names versions of others
		}
		fmt.Fprintln(r.say, "go mod tidy in", dir)
		if _, err := output(r.ctx, folder, env, "go", "mod", "edit", "-require="+proxy.Root+"@"+r.version); err != nil {
			return err
		}
		if _, err := output(r.ctx, folder, env, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	return nil
}

// serve adds a module of the worktree to the proxy of this run, and returns the environment to get it.
func (r *release) serve(dir string) ([]string, error) {
	served := filepath.Join(r.scratch, "proxy")
	if err := proxy.Write(served, r.tree, dir, r.version, r.at); err != nil {
		return nil, err
	}
	return proxy.Env(served, filepath.Join(r.scratch, "modules"))
}

// check builds and vets each module by itself, as it will be published.
func (r *release) check() error {
	env, err := r.serve(".")
	if err != nil {
		return err
	}
	for _, dir := range append([]string{"."}, r.nested...) {
		fmt.Fprintln(r.say, "go vet in", dir)
		if _, err := output(r.ctx, filepath.Join(r.tree, dir), env, "go", "vet", "./..."); err != nil {
			return err
		}
	}
	return nil
}

// finish moves the branch to the commit and sets the tags.
func (r *release) finish(commit string) error {
	if err := r.git(r.root, "merge", "--quiet", "--ff-only", commit); err != nil {
		return err
	}
	for _, tag := range r.tags() {
		if err := r.git(r.root, "tag", "-a", "-m", tag, tag, commit); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.say, "released %s; to publish it:\n    git push origin HEAD %s\n", r.version, strings.Join(r.tags(), " "))
	return nil
}

func (r *release) git(dir string, args ...string) error {
	_, err := output(r.ctx, dir, nil, "git", args...)
	return err
}

// output runs a program and returns what it printed, without the space around it. What it says on an error is in the error.
func output(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s in %s: %w\n%s", program, strings.Join(args, " "), dir, err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
