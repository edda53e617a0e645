// SPDX-License-Identifier: Apache-2.0

package redisimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// untar returns a tar's files by name; a directory has a nil content and a name with a slash at the end.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			files[h.Name] = nil
		} else if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchive_installedServer_selfContained(t *testing.T) {
	needs.Redis(t)
	labels := map[string]string{"who": "test"}
	archive, err := Archive(t.Context(), "x:y", labels)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Archive(t.Context(), "x:y", labels); err != nil || !bytes.Equal(again, archive) {
		t.Errorf("a second archive is another one (%v)", err)
	}
	outer := untar(t, archive)
	for file, want := range map[string]string{"manifest.json": `"RepoTags":["x:y"]`, "config.json": `"Labels":{"who":"test"}`} {
		if !strings.Contains(string(outer[file]), want) {
			t.Errorf("%s is %s, want %s in it", file, outer[file], want)
		}
	}
	layer := untar(t, outer["layer.tar"])
	for _, dir := range []string{"data/", "tmp/", "usr/", "usr/bin/"} {
		if _, ok := layer[dir]; !ok {
			t.Errorf("no directory %s", dir)
		}
	}
	paths, err := contents(t.Context(), "/"+server)
	if err != nil {
		t.Fatal(err)
	}
	loader := false
	for inside, here := range paths {
		want, err := os.ReadFile(here)
		if err != nil || !bytes.Equal(layer[inside], want) {
			t.Errorf("%s is not %s (%v)", inside, here, err)
		}
		loader = loader || strings.Contains(inside, "/ld-")
	}
	if !loader {
		t.Errorf("no dynamic loader among %v", paths)
	}
}

func TestArchive_noServer_namesRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Archive(t.Context(), "x:y", nil); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "install") {
		t.Fatalf("got %v", err)
	}
}
