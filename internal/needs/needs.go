// SPDX-License-Identifier: Apache-2.0

// Package needs is how a test says what it needs: a redis-server, a Docker engine, Java, a tier of the gate. It is for tests only.
//
// A test that lacks something skips and says what is missing. Where the environment says that it must be there, the test fails. The gate
// (internal/gate) finds the tests of a stage by the same calls: it reads which test functions call EveryServer, NoRace and so on by name. Hence
// these calls stand in the test function itself, and not in a helper of it.
//
// Two variables decide:
//
//	REDLOCK_TIER     quick (the default: go test ./...), test (make test), ci (.ci/run), soak (make soak)
//	REDLOCK_REQUIRE  what must be there, as a list: redis,docker,java,servers,programs
package needs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The variables that the package reads.
const (
	TierVar    = "REDLOCK_TIER"
	RequireVar = "REDLOCK_REQUIRE"
	ServersVar = "REDLOCK_SERVERS"
)

// A Tier says how much is run. Each has all that the ones before it have.
type Tier int

// The tiers.
const (
	TierQuick Tier = iota // what a change of a line wants to know: go test ./...
	TierTest              // with the race detector, real servers, Docker or processes: make test
	TierCI                // servers of other versions, Java: .ci/run
	TierSoak              // what takes hours: make soak
)

var tiers = []string{"quick", "test", "ci", "soak"}

func (t Tier) String() string { return tiers[t] }

// ParseTier returns the tier of that name. The empty name is quick.
func ParseTier(name string) (Tier, error) {
	if name == "" {
		return TierQuick, nil
	}
	if i := slices.Index(tiers, name); i >= 0 {
		return Tier(i), nil
	}
	return 0, fmt.Errorf("%s=%q: no such tier: want one of %s", TierVar, name, strings.Join(tiers, ", "))
}

var things = []string{"redis", "docker", "java", "servers", "programs"}

// ParseRequire returns what the list names.
func ParseRequire(list string) ([]string, error) {
	var must []string
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(things, word) {
			return nil, fmt.Errorf("%s=%q: nothing is called %q: want some of %s", RequireVar, list, word, strings.Join(things, ", "))
		}
		must = append(must, word)
	}
	return must, nil
}

// At returns the tier that the environment names, and fails the test if there is none of that name.
func At(t testing.TB) Tier {
	t.Helper()
	tier, err := ParseTier(os.Getenv(TierVar))
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

// Now returns the tier that the environment names, for helpers that have no test at hand. It takes a name that is none for quick: the tests
// of such a run fail by At.
func Now() Tier {
	tier, _ := ParseTier(os.Getenv(TierVar))
	return tier
}

// Missing skips the test because thing is not there, or fails it where it must be. It is for what only an attempt shows, such as a compiler that
// lacks its headers. thing is a word of REDLOCK_REQUIRE.
func Missing(t testing.TB, thing, why string) {
	t.Helper()
	must, err := ParseRequire(os.Getenv(RequireVar))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(things, thing) {
		t.Fatalf("needs.Missing: nothing is called %q", thing)
	}
	if slices.Contains(must, thing) {
		t.Fatalf("%s, and %s=%s says that it must be there", why, RequireVar, os.Getenv(RequireVar))
	}
	t.Skip(why)
}

// from skips the test below a tier.
func from(t testing.TB, tier Tier, command string) {
	t.Helper()
	if At(t) < tier {
		t.Skipf("runs in %s (%s=%s)", command, TierVar, tier)
	}
}

// Test skips the test in go test ./...: it is for make test and above.
func Test(t testing.TB) { t.Helper(); from(t, TierTest, "make test") }

// CI skips the test below .ci/run.
func CI(t testing.TB) { t.Helper(); from(t, TierCI, ".ci/run") }

// Soak skips the test everywhere but in make soak.
func Soak(t testing.TB) { t.Helper(); from(t, TierSoak, "make soak") }

// InSoak reports whether this is make soak, for tests that are longer there.
func InSoak(t testing.TB) bool { t.Helper(); return At(t) == TierSoak }

// NoRace skips the test under the race detector, which has nothing to see in it or leaves too little speed. make test runs it without.
func NoRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skipf("without the race detector only: %s", why)
	}
}

// Redis skips the test where there is no redis-server.
func Redis(t testing.TB) {
	t.Helper()
	At(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		Missing(t, "redis", "no redis-server in PATH: apt-get install redis-server")
	}
}

// EveryServer is Redis, and says that what the test shows depends on the server: the gate runs the test on each version that is supported.
func EveryServer(t testing.TB) { t.Helper(); Redis(t) }

// Cluster is Redis, and skips the test where the redis-server is of version 6: its cluster takes a fixed port beside each server's, which may be
// another's.
func Cluster(t testing.TB) {
	t.Helper()
	Redis(t)
	says, err := exec.CommandContext(t.Context(), "redis-server", "--version").Output()
	if err != nil {
		t.Fatalf("redis-server --version: %v", err)
	}
	if strings.Contains(string(says), " v=6.") {
		t.Skipf("redis-server has --cluster-port since 7.0: this is %s", strings.TrimSpace(string(says)))
	}
}

// Server returns the program of a server of another version, such as redis-6.2, redis-8.0 or valkey-8.1, which .ci/servers fetches. It is for .ci/run.
func Server(t testing.TB, name string) (program string) {
	t.Helper()
	CI(t)
	program = filepath.Join(ServersDir(), name, "redis-server")
	if err := exec.CommandContext(t.Context(), program, "--version").Run(); err != nil {
		Missing(t, "servers", fmt.Sprintf("no server %s: %v: .ci/servers fetches it", name, err))
	}
	return program
}

// Promtool returns the rule tester of Prometheus, which .ci/servers fetches, or the one in PATH. It is for make test and above.
func Promtool(t testing.TB) (program string) {
	t.Helper()
	Test(t)
	program = filepath.Join(ServersDir(), "prometheus", "promtool")
	if exec.CommandContext(t.Context(), program, "--version").Run() == nil {
		return program
	}
	program, err := exec.LookPath("promtool")
	if err != nil {
		Missing(t, "servers", "no promtool: .ci/servers fetches it")
	}
	return program
}

// ServersDir is where .ci/servers puts servers of other versions.
func ServersDir() string {
	if dir := os.Getenv(ServersVar); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/root/.cache"
	}
	return filepath.Join(cache, "redlock", "servers")
}

// Docker skips the test where no Docker engine answers, and in go test ./....
func Docker(t testing.TB) {
	t.Helper()
	Test(t)
	address := "/var/run/docker.sock"
	network := "unix"
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		var ok bool
		if network, address, ok = strings.Cut(host, "://"); !ok {
			t.Fatalf("DOCKER_HOST=%q: want unix://... or tcp://...", host)
		}
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		Missing(t, "docker", fmt.Sprintf("no Docker engine answers: %v", err))
		return
	}
	_ = conn.Close()
}

// Java skips the test where there is no JDK or no Maven, and below .ci/run.
func Java(t testing.TB) {
	t.Helper()
	CI(t)
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			Missing(t, "java", fmt.Sprintf("no %s in PATH: apt-get install -y openjdk-17-jdk-headless maven", program))
		}
	}
}

// Program skips the test where the program is not in PATH.
func Program(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, "programs", fmt.Sprintf("no %s in PATH", name))
	}
}

// Linux skips the test on every other system. why says what of Linux it is about, such as "reads /proc".
func Linux(t testing.TB, why string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("on Linux only: %s", why)
	}
}
