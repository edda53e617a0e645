// SPDX-License-Identifier: Apache-2.0

// Package replay says how a random test is run again. It is for tests only.
//
// The command that it prints has everything that changes what a test does with a seed: the race detector, build tags, -short, the long variant
// of REDLOCK_SOAK, and the test's own flags. The version of Go, which changes the order of goroutines, stands behind it as a comment.
package replay

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// SeedVar is the environment variable with the seed that Seed returns.
const SeedVar = "REDLOCK_SEED"

// Seed returns the seed of a test of the package in the folder pkg, such as "./redlock": a new one, or that of SeedVar. It logs how to run the
// test with it again.
func Seed(t testing.TB, pkg string) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv(SeedVar); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVar, err)
		}
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	t.Logf("replay: %s=%d %s", SeedVar, seed, command(name, pkg))
	return seed
}

// Command returns the command that runs the present test, of the package in the folder pkg, again, with more flags, such as "-seed", "7". A flag
// of the test binary that is not among them is repeated.
func Command(t testing.TB, pkg string, flags ...string) string {
	return command(t.Name(), pkg, flags...)
}

func command(test, pkg string, flags ...string) string {
	words := []string{"go test"}
	if os.Getenv("REDLOCK_SOAK") != "" {
		words = []string{"REDLOCK_SOAK=1 go test"}
	}
	words = append(words, build()...)
	if testing.Short() {
		words = append(words, "-short")
	}
	words = append(words, "-count=1", "-run", "'"+pattern(test)+"'", pkg)
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") && !slices.Contains(flags, "-"+f.Name) {
			words = append(words, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	return strings.Join(append(append(words, flags...), "#", runtime.Version()), " ")
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
