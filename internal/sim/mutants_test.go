// SPDX-License-Identifier: Apache-2.0

//go:build mutants && unix

package sim_test

import (
	"flag"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/sim"
)

var (
	huntFlag   = flag.Int("hunt", 0, "make the table of docs/chaos.md, of so many sequences of seeds")
	budgetFlag = flag.Int("budget", 20, "how many seeds -hunt gives a mutant in each sequence")
)

// hunts has the world that finds each mutant.
var hunts = []struct {
	mutant, world string
	// One of the seeds from this one on must find the mutant. 0: it is found too late, or not at all, for a test that always runs.
	// Not one seed alone, because not every one of these worlds repeats exactly.
	seed uint64
}{
	{"same-holder", shortWorld, 1001},
	{"no-elapsed-check", shortWorld, 0},
	{"no-owner-check", vanishWorld, 0},
	{"no-quarantine", forgetfulWorld, 1001},
	{"relearn-first", forgetfulWorld, 0},
	{"extend-creates", leftWorld, 2001},
	{"no-drift", shortWorld, 0},
	{"release-on-caller", leftWorld, 1001},
	{"no-debt", leftWorld, 1001},
	{"no-write-back", vanishWorld, 1001},
	{"extend-minority", shortWorld, 0},
	{"no-fence", leftWorld, 1001},
	{"no-clock-watch", shortWorld, 0},
	{"no-clock-note", operatedWorld, 0},
	{"no-epoch", mixedWorld, 1001},
	{"no-unlock", leftWorld, 1001},
	{"no-unread", frozenWorld, 2005},
	{"keep-debts", leftWorld, 1001},
	{"reader-repeats", readersWorld, 1001},
	{"no-sight", operatedWorld, 1006},
	{"no-change-wait", operatedWorld, 1001},
	{"hand-on-arrival", handedWorld, 0},
	{"undated-answer", handedWorld, 0},
	{"keep-places", leftWorld, 1001},
	{"again-queues", handedWorld, 0},
	{"hand-any-state", restartedWorld, 0},
	{"old-places", restartedWorld, 0},
	{"long-hand", handedWorld, 0},
	{"hand-held", handedWorld, 1001},
	{"hand-doubted", handedWorld, 0},
}

// unhunted are the mutants that no world finds, with the reason.
var unhunted = map[string]string{
	"no-notice":              "the simulation does not record when a holder was told: chaos on real masters does",
	"eviction-not-seen":      "no master evicts: TestSim_everything_keepsItsPromises of package redlock finds it",
	"late-hands-not-counted": "it judges no lease that is lost: TestSim_everything_keepsItsPromises does",
	"rest-not-looked-at":     "it has no minimum holds: TestSim_everything_keepsItsPromises does",
	"adopter-keeps-token":    "nothing is handed off to another process: in TestSim_everything_keepsItsPromises it is",
	"library-retries":        "go-redis dials under a mutex then, and the clock of a bubble stands still while a goroutine waits for one",
}

// within is how many seeds a mutant that is found quickly is given: several times the median of docs/chaos.md.
const within = 40

func worldOf(t *testing.T, name string) world {
	i := slices.IndexFunc(worlds, func(w world) bool { return w.name == name })
	if i < 0 {
		t.Fatalf("no world %q", name)
	}
	return worlds[i]
}

// finds runs one seed in a world without one defence, and returns the checker that finds the mutant, or "".
func finds(t *testing.T, mutant string, w world, seed uint64) (checker string) {
	t.Helper()
	if err := mutants.Set(mutant); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mutants.Set("") }()
	var h *history.History
	var stats sim.Stats
	var err error
	synctest.Test(t, func(*testing.T) { h, stats, err = sim.Run(seed, w.cfg) })
	results := []check.Result{check.Whole(safety.Assumptions(), h)}
	if w.cfg.Promises().Exclusion {
		results = append(results, check.Whole(safety.Exclusion(), h))
	}
	if w.cfg.Promises().Tokens {
		results = append(results, check.Whole(safety.Tokens(), h), check.Whole(safety.FencedRegister(), h))
	}
	results = append(results, digest.Healed(h, w.cfg.HealOf(h)))
	for _, r := range results {
		if r.Verdict == check.Illegal {
			return r.ID
		}
	}
	switch {
	case len(stats.Left.Votes) > 0:
		return "left"
	case len(stats.Left.Places) > 0:
		return "places"
	case len(stats.Left.Debts) > 0:
		return "debts"
	case err != nil:
		return "the run itself"
	}
	return ""
}

// The mutants that random worlds find quickly are found.
func TestMutants_randomWorlds_findThem(t *testing.T) {
	needs.CI(t)
	for _, hunt := range hunts {
		if hunt.seed == 0 {
			continue
		}
		t.Run(hunt.mutant, func(t *testing.T) {
			w := worldOf(t, hunt.world)
			for seed := hunt.seed; seed < hunt.seed+within; seed++ {
				if by := finds(t, hunt.mutant, w, seed); by != "" {
					t.Logf("%s finds it in world %s with seed %d, run %d", by, w.name, seed, seed-hunt.seed+1)
					return
				}
			}
			t.Errorf("not found in world %s with seeds %d to %d", w.name, hunt.seed, hunt.seed+within-1)
		})
	}
}

func TestMutants_everySwitch_isHuntedOrHasAReason(t *testing.T) {
	for _, name := range mutants.Names() {
		n := 0
		for _, hunt := range hunts {
			if hunt.mutant == name {
				n++
			}
		}
		if reason := unhunted[name]; n == 0 && reason == "" || n > 0 && reason != "" {
			t.Errorf("%s is in %d worlds, and the reason against it is %q", name, n, reason)
		}
	}
}

// The table of docs/chaos.md: go test -tags mutants ./internal/sim -run TestMutants_table -v -timeout 0 -hunt 5
func TestMutants_table(t *testing.T) {
	if *huntFlag == 0 {
		t.Skip("takes many minutes: -hunt 5 makes the table")
	}
	for _, hunt := range hunts {
		t.Run(hunt.mutant, func(t *testing.T) { fmt.Println(row(t, hunt.mutant, worldOf(t, hunt.world))) })
	}
}

// row hunts one mutant, by each of several sequences of seeds until it is found or the budget is spent.
func row(t *testing.T, mutant string, w world) string {
	var runs []int
	var took []time.Duration
	found := map[string]int{}
	for sequence := range *huntFlag {
		start, n, by := cpu(), 0, ""
		for by == "" && n < *budgetFlag {
			n++
			by = finds(t, mutant, w, uint64(1000*(sequence+1)+n))
		}
		if by == "" {
			n++
		} else {
			found[by]++
		}
		runs, took = append(runs, n), append(took, cpu()-start)
	}
	slices.Sort(runs)
	slices.Sort(took)
	return fmt.Sprintf("| `%s` | `%s` | %v | %v | %.1f |", mutant, w.name, found, runs, took[len(took)/2].Seconds())
}

// cpu is the time that this process has computed: what it costs does not depend on how busy the machine is.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
