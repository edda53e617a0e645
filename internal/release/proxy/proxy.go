// SPDX-License-Identifier: Apache-2.0

// Package proxy lays out the modules of a checkout as a module proxy serves them, so that the go command can get them before they are
// published: GOPROXY=file:///dir.
package proxy

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Root is the path of the root module.
const Root = "github.com/redlock-go/redlock"

// Nested returns the folders of the nested modules of the checkout, but those of the CI's tools.
func Nested(checkout string) (dirs []string, err error) {
	all, err := files(checkout)
	for _, f := range all {
		if dir, found := strings.CutSuffix(f, "/go.mod"); found && !strings.HasPrefix(dir, ".") {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

// Write adds the module in the folder dir of the checkout, "." for the root, to the proxy at target. What git ignores is left out, as it will not
// be in a tag.
func Write(target, checkout, dir, version string, at time.Time) error {
	all, err := files(checkout)
	if err != nil {
		return err
	}
	module := path.Join(Root, dir)
	folder := filepath.Join(target, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(checkout, dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": at.UTC()})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".mod": mod, version + ".info": info} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return writeZip(filepath.Join(folder, version+".zip"), checkout, module+"@"+version, ofModule(all, dir))
}

// files returns every file of the checkout that git does not ignore, by its path with slashes, sorted.
func files(checkout string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = checkout
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w", checkout, err)
	}
	all := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	all = slices.DeleteFunc(all, func(f string) bool {
		_, err := os.Lstat(filepath.Join(checkout, filepath.FromSlash(f)))
		return err != nil // deleted, and not yet in a commit
	})
	slices.Sort(all)
	return slices.Compact(all), nil
}

// ofModule returns the files of the module in dir: name in the module to path in the checkout. Those of modules in it are not among them. A
// nested module has the root's licence.
func ofModule(all []string, dir string) map[string]string {
	var inner []string
	for _, f := range all {
		if below := path.Dir(f); path.Base(f) == "go.mod" && below != dir && within(f, dir) {
			inner = append(inner, below)
		}
	}
	found := map[string]string{"LICENSE": "LICENSE"}
	for _, f := range all {
		if within(f, dir) && !slices.ContainsFunc(inner, func(m string) bool { return within(f, m) }) {
			found[strings.TrimPrefix(f, dir+"/")] = f
		}
	}
	return found
}

func within(file, dir string) bool { return dir == "." || strings.HasPrefix(file, dir+"/") }

func writeZip(name, checkout, prefix string, files map[string]string) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	z := zip.NewWriter(out)
	names := make([]string, 0, len(files))
	for in := range files {
		names = append(names, in)
	}
	slices.Sort(names)
	for _, in := range names {
		if err := addFile(z, prefix+"/"+in, filepath.Join(checkout, filepath.FromSlash(files[in]))); err != nil {
			return err
		}
	}
	return z.Close()
}

func addFile(z *zip.Writer, name, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := z.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

// Env returns what the go command needs, besides this process's environment, to get modules from the proxy at target and all others as this
// machine gets them. Modules are unpacked below scratch: in the machine's own module cache a version would stay that is not published.
func Env(target, scratch string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOPROXY", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != 2 {
		return nil, fmt.Errorf("go env GOPROXY GOMODCACHE says %q", out)
	}
	url := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	have := filepath.Join(lines[1], "cache", "download")
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "GOPROXY="+url(target)+","+url(have)+","+lines[0],
		"GONOSUMDB="+Root, "GOMODCACHE="+scratch), nil
}
