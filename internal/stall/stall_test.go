// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spy is the test that Try runs in, and keeps how it ended.
type spy struct {
	testing.TB
	end    string
	logs   int
	failed bool
}

func (s *spy) Helper()                   {}
func (s *spy) Failed() bool              { return s.failed }
func (s *spy) Errorf(string, ...any)     { s.failed = true }
func (s *spy) Logf(string, ...any)       { s.logs++ }
func (s *spy) Fatalf(f string, a ...any) { s.end = "fatal: " + fmt.Sprintf(f, a...); runtime.Goexit() }
func (s *spy) Skip(a ...any)             { s.end = "skip"; runtime.Goexit() }
func (s *spy) Skipf(f string, a ...any)  { s.end = "skip: " + fmt.Sprintf(f, a...); runtime.Goexit() }

// held starts a meter that says that the process was held up for d.
func held(d time.Duration) func() *Meter {
	return func() *Meter {
		m := Start()
		m.late -= d
		return m
	}
}

func TestTry_table(t *testing.T) {
	t.Setenv(TriesVar, "")
	const margin = 10 * time.Second // no machine stalls for that long: what counts here is what the test adds
	for _, test := range []struct {
		name  string
		held  time.Duration
		fails int // the first so many tries fail
		runs  int
		end   string
	}{
		{"passes", 0, 0, 1, ""},
		{"passes although held up", 20 * time.Second, 0, 1, ""},
		{"fails", 0, 9, 1, "fatal"},
		{"held up once", 20 * time.Second, 1, 2, ""},
		{"held up twice", 20 * time.Second, 2, 3, ""},
		{"held up each time", 20 * time.Second, 9, 3, "fatal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, runs := &spy{TB: t}, 0
			var cleaned []int
			apart(func() {
				try(s, margin, held(test.held), func(t testing.TB) {
					runs++
					n := runs
					t.Cleanup(func() { cleaned = append(cleaned, n) })
					if n <= test.fails {
						t.Fatalf("try %d", n)
					}
				})
			})
			if runs != test.runs || s.logs != max(runs-1, 0) || (test.end == "") != (s.end == "") {
				t.Errorf("%d runs, %d logs, ended with %q", runs, s.logs, s.end)
			}
			if len(cleaned) != runs || !slices.IsSorted(cleaned) {
				t.Errorf("%d runs cleaned up %v", runs, cleaned)
			}
		})
	}
}

// Under the gate a test that was held up each time is skipped, and says that it is to run again alone. One that was not held up counts.
func TestTry_underTheGate_saysThatItIsToRunAlone(t *testing.T) {
	for _, test := range []struct {
		tries string
		held  time.Duration
		runs  int
		end   string
		alone bool
	}{
		{FirstTries, 20 * time.Second, 2, "skip", true},
		{FirstTries, 0, 1, "fatal", false},
		{LastTry, 20 * time.Second, 1, "fatal", false},
		{"", 20 * time.Second, 3, "fatal", false},
		{"many", 20 * time.Second, 3, "fatal", false},
		{"0", 20 * time.Second, 3, "fatal", false},
	} {
		t.Setenv(TriesVar, test.tries)
		s, runs := &spy{TB: t}, 0
		apart(func() {
			try(s, 10*time.Second, held(test.held), func(t testing.TB) {
				runs++
				t.Fatal("no")
			})
		})
		if alone := strings.Contains(s.end, AloneText); runs != test.runs || alone != test.alone || !strings.HasPrefix(s.end, test.end) {
			t.Errorf("%s, held up for %v: %d runs, ended with %q", test.tries, test.held, runs, s.end)
		}
	}
}

// What a try tells the test that Try runs in counts, however long the machine was held up: two holders, for one.
func TestTry_testItselfFailed_noStallExcusesIt(t *testing.T) {
	for _, tries := range []string{FirstTries, LastTry, ""} {
		t.Setenv(TriesVar, tries)
		outer, runs := &spy{TB: t}, 0
		apart(func() {
			try(outer, 10*time.Second, held(20*time.Second), func(t testing.TB) {
				runs++
				outer.Errorf("exclusion: two holders")
				t.Fatal("no")
			})
		})
		if runs != 1 || !strings.HasPrefix(outer.end, "fatal") || strings.Contains(outer.end, AloneText) {
			t.Errorf("%s=%s: %d runs, ended with %q", TriesVar, tries, runs, outer.end)
		}
	}
}

func TestTry_contextEndsAndSkips(t *testing.T) {
	s := &spy{TB: t}
	apart(func() {
		try(s, 0, Start, func(t testing.TB) {
			ctx := t.Context()
			t.Cleanup(func() {
				if ctx.Err() == nil {
					s.end = "context goes on in Cleanup"
				}
			})
			t.Skip("why")
		})
	})
	if s.end != "skip" {
		t.Errorf("ended with %q", s.end)
	}
}

// A process that computes on all its processors is held up.
func TestMeter_busyProcess_held(t *testing.T) {
	m := Start()
	defer m.Stop()
	end := time.Now().Add(20 * time.Second)
	n := 4 * runtime.GOMAXPROCS(0)
	done := make(chan bool, n)
	for range n {
		go func() {
			for time.Now().Before(end) && m.Held() == 0 {
				for range 1_000_000 {
				}
			}
			done <- true
		}()
	}
	for range n {
		<-done
	}
	if m.Held() == 0 {
		t.Error("held up for 0s")
	}
}

// Children that wait for a processor are held up, although this process only sleeps.
func TestMeter_childrenWait_held(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this system does not say for how long a process waits for a processor: ", err)
	}
	q := newQueue()
	before := q.look()
	for range 2 * runtime.NumCPU() {
		child := exec.Command("sh", "-c", "while :; do :; done")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		}()
	}
	children := func() (sum time.Duration) {
		q.look()
		for pid, threads := range q.waited {
			for _, d := range threads {
				if pid != strconv.Itoa(os.Getpid()) {
					sum += d
				}
			}
		}
		return sum
	}
	for end := time.Now().Add(20 * time.Second); children() < 100*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("held up for %v, the children for %v", q.look()-before, children())
		}
	}
	if all := q.look() - before; all < 100*time.Millisecond {
		t.Errorf("held up for %v together", all)
	}
}

// Meters that run at the same time share what is looked at: each has what came since its own start, and the goroutine ends with the last.
func TestMeter_twoAtOnce_eachSinceItsStart(t *testing.T) {
	one := Start()
	shared.mu.Lock()
	shared.late += time.Hour
	shared.mu.Unlock()
	two := Start()
	one.Stop()
	if held := one.Held(); held < time.Hour {
		t.Errorf("the first was held up for %v", held)
	}
	if held := two.Held(); held >= time.Hour {
		t.Errorf("the second was held up for %v, before it started", held)
	}
	select {
	case <-shared.stopped:
		t.Error("nobody watches for the second")
	default:
	}
	two.Stop()
}
