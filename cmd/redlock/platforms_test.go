// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

// platforms are those that the README names and that this gate does not run on: what of the module each of them has.
var platforms = []struct {
	os, arch string
	packages []string
}{
	{"linux", "386", []string{"./..."}},
	{"linux", "arm", []string{"./redlock", "./node", "./cmd/redlock"}}, // what 386 does not show is how it aligns
	{"darwin", "arm64", []string{"./..."}},
	// Its servers, signals and process groups are what chaos and the tests of run are made of.
	{"windows", "amd64", []string{"./redlock", "./election", "./fence", "./semaphore", "./redlocktest",
		"./metrics", "./node", "./node/nodetest", "./multilock", "./flight", "./clock", "./compat/redsync", "./compat/redislock", "./compat/synclocker"}},
}

// Every package and every test of them compiles on these platforms: their types are checked from source, with the files, sizes and
// standard library of the platform. That finds what a compiler finds, and makes no machine code: go vet for four platforms took six
// minutes. What is left is whether it links, which is tried for Windows, and by TestPlatforms_32bitLocks for 386.
func TestPlatforms_compile(t *testing.T) {
	needs.CI(t)
	for _, p := range platforms {
		t.Run(p.os+"-"+p.arch, func(t *testing.T) {
			// The tests for Windows need a redis-server, and none runs there.
			for _, err := range typeErrors(t, p.os, p.arch, p.os != "windows", append([]string{"./cmd/redlock"}, p.packages...)) {
				t.Error(err)
			}
			if p.os == "windows" {
				cross(t, p.os, p.arch, "build", "-o", filepath.Join(t.TempDir(), "redlock"), "./cmd/redlock")
			}
		})
	}
}

// What a compiler would find is found: a call that only Linux has, and a constant that 32 bits do not hold.
func TestPlatforms_typeErrors_found(t *testing.T) {
	needs.CI(t) // as what it is for: the standard library of three platforms is checked from source
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n\ngo 1.26\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\nconst Big = 1 << 40\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "x_test.go"), []byte("package x_test\n\nimport (\n\t\"syscall\"\n\n\t\"x\"\n)\n\n"+
		"var n int = x.Big\n\nvar _ = syscall.EpollCreate1\n"), 0o644))
	for _, tc := range []struct {
		os, arch string
		finds    []string
	}{
		{"linux", "amd64", nil},
		{"linux", "386", []string{"overflow"}},
		{"darwin", "arm64", []string{"EpollCreate1"}},
	} {
		found := typeErrorsIn(t, dir, tc.os, tc.arch, true, []string{"./..."})
		if len(found) != len(tc.finds) || len(found) == 1 && !strings.Contains(found[0].Error(), tc.finds[0]) {
			t.Errorf("%s/%s: %v, want %q", tc.os, tc.arch, found, tc.finds)
		}
	}
}

// A machine of 32 bits locks: an atomic of 64 bits that is not aligned would panic there.
func TestPlatforms_32bitLocks(t *testing.T) {
	needs.CI(t)
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("runs programs of linux/386")
	}
	cross(t, "linux", "386", "test", "-short", "./clock", "./internal/protocol", "./redlocktest")
}

func crossEnv(system, arch string) []string {
	return append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
}

func cross(t *testing.T, system, arch string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(crossEnv(system, arch), "REDLOCK_TIER=quick", "REDLOCK_REQUIRE=", stall.TriesVar+"=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("GOOS=%s GOARCH=%s go %s: %v\n%s", system, arch, strings.Join(args, " "), err, out)
	}
}

// What run and elect are on Windows: one line that says why, whatever flags follow, and exit code 2.
func TestUnixOnly_says(t *testing.T) {
	for _, verb := range []string{"run", "elect"} {
		cmd := unixOnly(verb)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"nightly", "--no-wait", "--", "backup"})
		err := cmd.Execute()
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), verb+" is only on Unix") || !strings.Contains(err.Error(), "WSL") {
			t.Errorf("%s: exit %d, %v", verb, exitCode(err), err)
		}
	}
}
