// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// spy is a test that keeps how it ended.
type spy struct {
	testing.TB
	end string
}

func (s *spy) Helper()                   {}
func (s *spy) Skip(args ...any)          { s.stop("skip: " + fmt.Sprint(args...)) }
func (s *spy) Fatal(args ...any)         { s.stop("fatal: " + fmt.Sprint(args...)) }
func (s *spy) Skipf(f string, a ...any)  { s.Skip(fmt.Sprintf(f, a...)) }
func (s *spy) Fatalf(f string, a ...any) { s.Fatal(fmt.Sprintf(f, a...)) }
func (s *spy) stop(end string)           { s.end = end; runtime.Goexit() }

// ends runs f as a test and returns how it ended: "" if it ran on.
func ends(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return s.end
}

func TestNeeds_tableOfEnvironments(t *testing.T) {
	empty := t.TempDir()
	with := t.TempDir()
	if err := os.WriteFile(filepath.Join(with, "redis-server"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	six := t.TempDir()
	if err := os.WriteFile(filepath.Join(six, "redis-server"), []byte("#!/bin/sh\necho 'Redis server v=6.2.14 sha=0'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := func(t testing.TB) { Server(t, "redis-6.2") }
	program := func(t testing.TB) { Program(t, "redis-server") }
	broken := func(thing string) func(testing.TB) {
		return func(t testing.TB) { Missing(t, thing, "cc has no headers") }
	}
	for _, test := range []struct {
		name, tier, require, path string
		need                      func(testing.TB)
		want                      string // how its end begins
	}{
		{"quick skips what is for make test", "", "", with, Test, "skip: runs in make test (REDLOCK_TIER=test)"},
		{"quick by name", "quick", "", with, Test, "skip: runs in make test"},
		{"make test runs it", "test", "", with, Test, ""},
		{"make test skips what is for CI", "test", "", with, CI, "skip: runs in .ci/run"},
		{"CI runs what is for make test", "ci", "", with, Test, ""},
		{"only a soak is a soak", "ci", "", with, Soak, "skip: runs in make soak"},
		{"a soak runs all", "soak", "", with, Soak, ""},
		{"no such tier", "fast", "", with, Test, `fatal: REDLOCK_TIER="fast": no such tier: want one of quick, test, ci, soak`},
		{"redis is there", "", "redis", with, Redis, ""},
		{"redis is not there", "", "", empty, Redis, "skip: no redis-server in PATH"},
		{"redis must be there", "", "redis", empty, Redis, "fatal: no redis-server in PATH: apt-get install redis-server, and REDLOCK_REQUIRE=redis"},
		{"nothing of that name", "", "redis,dokcer", empty, Redis, `fatal: REDLOCK_REQUIRE="redis,dokcer": nothing is called "dokcer"`},
		{"no such tier, and a test of every tier", "fast", "", with, Redis, `fatal: REDLOCK_TIER="fast": no such tier`},
		{"a cluster", "", "", with, Cluster, ""},
		{"a cluster without redis", "", "", empty, Cluster, "skip: no redis-server in PATH"},
		{"a cluster of version 6", "", "redis", six, Cluster, "skip: redis-server has --cluster-port since 7.0: this is Redis server v=6.2.14"},
		{"a program", "", "programs", with, program, ""},
		{"a program that is missing", "", "redis", empty, program, "skip: no redis-server in PATH"},
		{"a program that must be there", "", "programs", empty, program, "fatal: no redis-server in PATH, and REDLOCK_REQUIRE=programs"},
		{"what an attempt showed", "", "redis", with, broken("programs"), "skip: cc has no headers"},
		{"what must work", "", "redis programs", with, broken("programs"), "fatal: cc has no headers, and REDLOCK_REQUIRE=redis programs"},
		{"a thing that nobody can require", "", "", with, broken("headers"), `fatal: needs.Missing: nothing is called "headers"`},
		{"every server is redis", "", "redis", empty, EveryServer, "fatal: no redis-server"},
		{"a server that is missing", "ci", "", empty, server, "skip: no server redis-6.2"},
		{"a server that must be there", "ci", "docker, servers", empty, server, "fatal: no server redis-6.2"},
		{"a server below CI", "test", "servers", empty, server, "skip: runs in .ci/run"},
		{"no engine", "test", "", empty, Docker, "skip: no Docker engine answers"},
		{"an engine that must be there", "test", "docker", empty, Docker, "fatal: no Docker engine answers"},
		{"no engine below make test", "", "docker", empty, Docker, "skip: runs in make test"},
		{"no Java", "ci", "", empty, Java, "skip: no java in PATH"},
		{"Java must be there", "ci", "java", empty, Java, "fatal: no java in PATH"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(TierVar, test.tier)
			t.Setenv(RequireVar, test.require)
			t.Setenv(ServersVar, empty)
			t.Setenv("DOCKER_HOST", "unix://"+empty+"/no.sock")
			t.Setenv("PATH", test.path)
			got := ends(t, test.need)
			if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNoRace(t *testing.T) {
	if got := ends(t, func(t testing.TB) { NoRace(t, "computes") }); (got != "") != Race {
		t.Errorf("race %v, and it ended with %q", Race, got)
	}
}

func TestLinux(t *testing.T) {
	if got := ends(t, func(t testing.TB) { Linux(t, "reads /proc") }); (got == "") != (runtime.GOOS == "linux") {
		t.Errorf("%s, and it ended with %q", runtime.GOOS, got)
	}
}

func TestNow_unknownTier_quick(t *testing.T) {
	for name, want := range map[string]Tier{"": TierQuick, "soak": TierSoak, "fast": TierQuick} {
		if t.Setenv(TierVar, name); Now() != want {
			t.Errorf("%q is %v, want %v", name, Now(), want)
		}
	}
}
