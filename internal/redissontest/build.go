// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNoJava is returned by Start where the JDK or Maven it needs is not on the PATH. The error that wraps it names
// what is missing and the line that installs it.
var ErrNoJava = errors.New("redissontest: no Java to run")

const install = "apt-get install -y openjdk-17-jdk-headless maven"

// Embedded, because tests of other packages run in their own directories, and the sources are not there.
//
//go:embed pom.xml src
var sources embed.FS

// find returns the path of a tool, or an ErrNoJava that says how to get it.
func find(tool string) (string, error) {
	path, err := exec.LookPath(tool)
	if err != nil {
		return "", fmt.Errorf("%w: %s is missing, install it with: %s", ErrNoJava, tool, install)
	}
	return path, nil
}

// Available returns an ErrNoJava that says what is missing to start anything here, or nil.
func Available() error {
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := find(tool); err != nil {
			return err
		}
	}
	return nil
}

// program builds the Java side if need be, and returns the path of java and the class path.
func program(ctx context.Context) (java, classes string, err error) {
	if java, err = find("java"); err != nil {
		return "", "", err
	}
	built, err := build(ctx)
	return java, filepath.Join(built, "classes") + ":" + filepath.Join(built, "lib", "*"), err
}

// build returns the directory with the compiled peer (classes) and what it needs (lib). It runs Maven only when the
// sources have changed since the last time: the directory's name is the sources' hash. The first build on a machine
// downloads about 45 MB; later ones need no network.
//
// Any number of processes may build at once: one of them does it under a file lock, the others wait for it. Without
// that they would also write to Maven's local repository together, which Maven does not protect.
func build(ctx context.Context) (string, error) {
	key, err := hash(sources)
	if err != nil {
		return "", err
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("redissontest: no place for the build: %w", err)
	}
	cache := filepath.Join(user, "redlock-redisson")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	built := filepath.Join(cache, key)
	if _, err := os.Stat(built); err == nil {
		return built, nil // it is renamed into place when complete, so what is there is whole
	}
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, sources); err != nil {
		return "", err
	}
	if err := maven(ctx, work); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(work, "target"), built); err != nil {
		return "", err
	}
	return built, nil
}

// maven builds the project in dir into dir/target.
func maven(ctx context.Context, dir string) error {
	mvn, err := find("mvn")
	if err != nil {
		return err
	}
	if _, err := find("javac"); err != nil { // a JRE alone is not enough, and Maven says so only at length
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, "-B", "-q", "-Dstyle.color=never", "package")
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("redissontest: mvn package: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// hash names the content of files.
func hash(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// lockFile waits until this process alone holds path, and returns what gives it back. The kernel gives it back too
// when the process dies, so no stale lock is ever left.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	// Polled, not a blocking flock: that one cannot be called off with the context.
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("redissontest: lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
