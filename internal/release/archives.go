// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/release/proxy"
)

type platform struct{ os, arch string }

// platforms are those that the command is built for.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// archives builds the command for each platform from the module as it is published. The same commit, Go and version make the same bytes.
func (r *release) archives() error {
	env, err := r.serve(".")
	if err != nil {
		return err
	}
	var sums []string
	for _, p := range platforms {
		bin, err := r.build(env, p.os, p.arch)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("redlock_%s_%s_%s", r.version, p.os, p.arch)
		fmt.Fprintln(r.say, "archive", name)
		bill, err := r.bill(bin, name)
		if err != nil {
			return err
		}
		packed, suffix, err := r.pack(bin, p.os == "windows")
		if err != nil {
			return err
		}
		for file, text := range map[string][]byte{name + suffix: packed, name + ".cdx.json": bill} {
			if err := os.WriteFile(filepath.Join(r.out, file), text, 0o644); err != nil {
				return err
			}
			sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(text), file))
		}
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// build returns the path of the command, built as go install builds it.
func (r *release) build(env []string, system, arch string) (string, error) {
	gopath := filepath.Join(r.scratch, "built-"+system+"-"+arch)
	env = append(slices.Clone(env), "GOPATH="+gopath, "GOBIN=", "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	if _, err := output(r.ctx, r.scratch, env, "go", "install", "-ldflags=-s -w", proxy.Root+"/cmd/redlock@"+r.version); err != nil {
		return "", err
	}
	// In a folder of the platform where it is not this machine's.
	found, err := filepath.Glob(filepath.Join(gopath, "bin", "redlock*"))
	if err == nil && len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(gopath, "bin", "*", "redlock*"))
	}
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("go install for %s/%s made %v: %w", system, arch, found, err)
	}
	return found[0], nil
}

// pack puts the command, the licence and the README into an archive whose bytes depend on nothing else but the time of the commit.
func (r *release) pack(bin string, windows bool) (packed []byte, suffix string, err error) {
	var out bytes.Buffer
	files := []string{bin, filepath.Join(r.tree, "LICENSE"), filepath.Join(r.tree, "README.md")}
	if windows {
		z := zip.NewWriter(&out)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, "", err
			}
			w, err := z.CreateHeader(&zip.FileHeader{Name: filepath.Base(file), Method: zip.Deflate, Modified: r.at.UTC()})
			if err != nil {
				return nil, "", err
			}
			if _, err := w.Write(text); err != nil {
				return nil, "", err
			}
		}
		err := z.Close()
		return out.Bytes(), ".zip", err
	}
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, "", err
		}
		mode := int64(0o644)
		if file == bin {
			mode = 0o755
		}
		header := &tar.Header{Name: filepath.Base(file), Mode: mode, Size: int64(len(text)), ModTime: r.at.UTC(), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, "", err
		}
		if _, err := w.Write(text); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	err = gz.Close()
	return out.Bytes(), ".tar.gz", err
}

// bill is what the command is made of, as CycloneDX 1.5 has it: read from the program itself.
func (r *release) bill(bin, name string) ([]byte, error) {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl,omitempty"`
	}
	of := func(kind, path, version string) component {
		return component{kind, path, version, "pkg:golang/" + path + "@" + version}
	}
	components := []component{of("library", "stdlib", info.GoVersion)}
	for _, m := range info.Deps {
		components = append(components, of("library", m.Path, m.Version))
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.at.UTC().Format("2006-01-02T15:04:05Z"),
			"component": map[string]any{"type": "application", "name": name, "version": r.version, "purl": "pkg:golang/" + info.Main.Path + "@" + r.version,
				"licenses": []any{map[string]any{"license": map[string]string{"id": "Apache-2.0"}}}},
		},
		"components": components,
	}, "", "  ")
}
