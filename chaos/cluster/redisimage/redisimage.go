// SPDX-License-Identifier: Apache-2.0

// Package redisimage makes a container image of the redis-server that is installed on this machine.
//
// Guarantee: the image holds what is installed now, and the same files, name and labels give the same bytes. Conditions: Linux, with ldd;
// an engine of the same architecture. It is for machines that reach no registry, where a real image cannot be pulled.
package redisimage

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// server is the path of redis-server inside the image, without the leading slash as in all our tar files.
const server = "usr/bin/redis-server"

// Archive returns an image (about 18 MB) of that name, e.g. "redlock-redis:x", and with these labels, as "docker load" takes it: redis-server,
// the libraries it needs with the dynamic loader, empty /data and /tmp. It has no user database: run it under any numeric user.
// Without an installed redis-server the error is exec.ErrNotFound and says how to get one.
//
// It is for "docker load" and not for "docker import", because an import carries no labels, and two imports of one name make two images of
// which one loses its name and is left behind.
func Archive(ctx context.Context, name string, labels map[string]string) ([]byte, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redisimage: %w; install it with: apt-get install -y redis-server", err)
	}
	archive, err := pack(ctx, binary, name, labels)
	if err != nil {
		return nil, fmt.Errorf("redisimage: %w", err)
	}
	return archive, nil
}

func pack(ctx context.Context, binary, name string, labels map[string]string) ([]byte, error) {
	layer, err := rootfs(ctx, binary)
	if err != nil {
		return nil, err
	}
	// The formats: "Image JSON" of the Docker image specification v1.2, which engines of all ages load.
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Labels": labels, "Entrypoint": []string{"/" + server}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return tarOf(nil, map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest})
}

// rootfs returns the image's only layer.
func rootfs(ctx context.Context, binary string) ([]byte, error) {
	paths, err := contents(ctx, binary)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	dirs := map[string]int64{"data": 0o777, "tmp": 0o1777}
	for inside, here := range paths {
		if files[inside], err = os.ReadFile(here); err != nil { // follows symbolic links
			return nil, err
		}
		for dir := filepath.Dir(inside); dir != "."; dir = filepath.Dir(dir) {
			dirs[dir] = 0o755
		}
	}
	return tarOf(dirs, files)
}

// ldd prints "name => /path (0x..)" for a library and "/path (0x..)" for the loader.
var lddPath = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// contents returns what the image is made of: path inside, without the leading slash, to path here.
func contents(ctx context.Context, binary string) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "ldd", binary).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: %s", binary, err, bytes.TrimSpace(out))
	}
	if strings.Contains(string(out), "not found") {
		return nil, fmt.Errorf("%s does not run here, a library is missing:\n%s", binary, out)
	}
	paths := map[string]string{server: binary}
	for _, m := range lddPath.FindAllStringSubmatch(string(out), -1) {
		paths[m[1][1:]] = m[1]
	}
	return paths, nil
}

// tarOf writes directories and files in the order of their names, all owned by root and of one time.
func tarOf(dirs map[string]int64, files map[string][]byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) { // a parent comes before its children
		if err := w.WriteHeader(header(tar.TypeDir, dir+"/", dirs[dir], 0)); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(header(tar.TypeReg, name, 0o755, len(files[name]))); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func header(kind byte, name string, mode int64, size int) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: int64(size), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}
