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

// Every package and every test of them compiles on these platforms, and the command links.
func TestPlatforms_compile(t *testing.T) {
	needs.CI(t)
	for _, p := range platforms {
		t.Run(p.os+"-"+p.arch, func(t *testing.T) {
			verb := append([]string{"vet"}, p.packages...)
			if p.os == "windows" { // its tests need a redis-server, and none runs there
				verb = append([]string{"build"}, p.packages...)
			}
			cross(t, p.os, p.arch, verb...)
			cross(t, p.os, p.arch, "build", "-o", filepath.Join(t.TempDir(), "redlock"), "./cmd/redlock")
		})
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

func cross(t *testing.T, system, arch string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "REDLOCK_TIER=quick", "REDLOCK_REQUIRE=")
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
