// SPDX-License-Identifier: Apache-2.0

// Package replay says with which seeds a random test runs, and how it is run again. It is for tests only.
//
// The seeds of the gate are fixed. They stand in testdata/seeds of the package of the test: some were chosen once, and every seed that ever
// found a fault is there with the fault's name. A line is
//
//	TestName SEED [the fault that it found]
//
// With REDLOCK_SEED each random test takes that seed instead of its list. A test of many short runs goes on with the seeds after it. make hunt
// draws seeds that way. Such a run asserts only what every seed must show: see Listed.
//
// The command that a failing run prints has everything that changes what a test does with a seed: the race detector, build tags, the tier, and
// the test's own flags. The version of Go, which changes the order of goroutines, stands behind it as a comment.
package replay

import (
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// SeedVar is the environment variable with the seed that is taken instead of a list.
const SeedVar = "REDLOCK_SEED"

// UntilVar is the environment variable with the moment, as RFC 3339 writes it, when a test of many runs is to come to its end. make soak sets it, and
// so what each test did within its share of the budget is judged and counted.
const UntilVar = "REDLOCK_UNTIL"

// List is where the seeds of a package stand, in its folder.
const List = "testdata/seeds"

// A Line is one seed of a list.
type Line struct {
	Test  string
	Seed  uint64
	Fault string // what the seed found, or empty
}

// ParseList returns the lines of the list in text. Its errors name the line.
func ParseList(text string) ([]Line, error) {
	var lines []Line
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 2 || !strings.HasPrefix(words[0], "Test") {
			return nil, fmt.Errorf("%s:%d: %q is no seed: want TestName SEED [the fault that it found]", List, n, strings.TrimSpace(line))
		}
		seed, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %q is no seed of %s: want a number from 0 to 2^64-1", List, n, words[1], words[0])
		}
		l := Line{words[0], seed, strings.Join(words[2:], " ")}
		if slices.ContainsFunc(lines, func(o Line) bool { return o.Test == l.Test && o.Seed == l.Seed }) {
			return nil, fmt.Errorf("%s:%d: seed %d of %s is there twice", List, n, l.Seed, l.Test)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// Seeds returns the seeds of the test: those of its package's list, or that of SeedVar alone. The test fails if the list has none for it, or a line
// that is no seed.
func Seeds(t testing.TB) []uint64 {
	t.Helper()
	if errUntil != nil {
		t.Fatal(errUntil)
	}
	name := top(t)
	if s := os.Getenv(SeedVar); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: want a number from 0 to 2^64-1", SeedVar, s)
		}
		return []uint64{seed}
	}
	text, err := os.ReadFile(filepath.FromSlash(List))
	if err != nil {
		t.Fatalf("%s is a random test and its package has no list of seeds: %v", name, err)
	}
	lines, err := ParseList(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var seeds []uint64
	for _, l := range lines {
		if l.Test == name {
			seeds = append(seeds, l.Seed)
		}
	}
	if len(seeds) == 0 {
		t.Fatalf("%s has no line for %s: add one, for example\n%s %d", List, name, name, rand.Uint64())
	}
	return seeds
}

// Each runs f as a subtest for each of the seeds of t. A subtest that fails logs the command that runs it again.
func Each(t *testing.T, f func(t *testing.T, seed uint64)) {
	t.Helper()
	for _, seed := range Seeds(t) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Cleanup(func() { Report(t, seed) })
			f(t, seed)
		})
	}
}

// Many yields the seeds of a test of many short runs: those of its list, and then the ones that follow the first of the list, n in all. With
// SeedVar they are that seed and the ones that follow it. A run that fails is the last one, and its seed is reported.
func Many(t testing.TB, n int) iter.Seq[uint64] {
	t.Helper()
	return yields(t, n, func(int) bool { return false })
}

// Until is Many for runs that must show something together: after the list it goes on until enough, which gets the number of runs so far, and it
// yields most seeds at most. With SeedVar it yields that seed alone.
func Until(t testing.TB, most int, enough func(runs int) bool) iter.Seq[uint64] {
	t.Helper()
	return yields(t, most, func(runs int) bool { return !Listed() || enough(runs) })
}

func yields(t testing.TB, n int, enough func(runs int) bool) iter.Seq[uint64] {
	t.Helper()
	seeds := Seeds(t)
	running, seed := false, seeds[0]
	t.Cleanup(func() {
		if running {
			Report(t, seed)
		}
	})
	return func(yield func(uint64) bool) {
		before := t.Failed()
		running = true
		for i := range max(n, len(seeds)) {
			if seed = seeds[0] + uint64(1+i-len(seeds)); i < len(seeds) {
				seed = seeds[i]
			}
			more := yield(seed)
			if t.Failed() && !before {
				return // and the seed is reported
			}
			if !more || i+1 >= len(seeds) && (enough(i+1) || Over()) {
				t.Logf("%d runs", i+1)
				break
			}
		}
		running = false
	}
}

// over is set at the moment of UntilVar: by a timer that began outside of any bubble of testing/synctest, so that Over can be asked inside.
var over atomic.Bool

// errUntil is what is wrong with UntilVar.
var errUntil = setUntil()

func setUntil() error {
	text := os.Getenv(UntilVar)
	if text == "" {
		return nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("%s=%q: want a moment such as 2026-11-26T05:00:00Z", UntilVar, text)
	}
	time.AfterFunc(time.Until(until), func() { over.Store(true) })
	return nil
}

// Over reports whether the moment of UntilVar is over. A test that goes on for long asks it between two of its runs or rounds.
func Over() bool { return over.Load() }

// Listed reports whether the seeds are those of the lists, and as many as the test wanted. Only then may a test assert what its seeds show together, such
// as that each fault struck once.
func Listed() bool { return os.Getenv(SeedVar) == "" && !Over() }

// RNG returns the source of randomness of a seed. It is not for several goroutines at once.
func RNG(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Bytes returns an even number of random bytes, most at most: steps of the function that is a fuzz test too. Without that test go test would take
// only the few that are written down.
func Bytes(seed uint64, most int) []byte {
	rng := RNG(seed)
	steps := make([]byte, 2*(1+rng.IntN(most/2)))
	for i := range steps {
		steps[i] = byte(rng.Uint32())
	}
	return steps
}

// Report logs, if the test has failed, the command that runs it again with the seed.
func Report(t testing.TB, seed uint64) {
	t.Helper()
	if t.Failed() {
		t.Logf("replay: %s", Command(t, seed))
	}
}

// Command returns the command that runs the present test again with the seed alone. Subtests named by a seed are left to SeedVar.
func Command(t testing.TB, seed uint64) string {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/seed=")
	words := []string{fmt.Sprintf("%s=%d", SeedVar, seed)}
	if tier := os.Getenv(needs.TierVar); tier != "" {
		words = append(words, needs.TierVar+"="+tier)
	}
	words = append(append(words, "go test"), build()...)
	words = append(words, "-count=1", "-run", "'"+pattern(name)+"'", Package(t))
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			words = append(words, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	return strings.Join(append(words, "#", runtime.Version()), " ")
}

// Package returns the folder of the package under test as go test takes it, such as ./redlock. Tests run in that folder.
func Package(t testing.TB) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for root := here; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			rel, _ := filepath.Rel(root, here)
			return "./" + filepath.ToSlash(rel)
		}
	}
	return here
}

// top is the name of the test function that t is of.
func top(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// build returns the flags that this program was built with, if they change what it does.
func build() (flags []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "-race" && s.Value == "true":
			flags = append(flags, "-race")
		case s.Key == "-tags" && s.Value != "":
			flags = append(flags, "-tags="+s.Value)
		}
	}
	return flags
}

// pattern matches the name of a test, and nothing else.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
