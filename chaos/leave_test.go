// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

// doomedVar makes the test binary a harness that comes to a bad end: its driver, and how it ends.
const doomedVar = "REDLOCK_CHAOS_DOOMED"

// doomed runs for as long as it lives, and says when it is in the middle of it.
func doomed(driver, end string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	ns, err := nemesis.Parse("freeze-masters,freeze-client,partition", func(nemesis.Nemesis) string { return "" })
	seen := 0
	if err == nil {
		_, err = Run(ctx, Config{Driver: cluster.Driver(driver), Masters: 3, Clients: 2, Duration: time.Hour, Seed: 1, Nemeses: ns, Progress: func(Progress) {
			if seen++; seen != 5 {
				return
			}
			fmt.Println("running")
			switch end {
			case "panics":
				panic("injected")
			case "panics elsewhere":
				go panic("injected")
			}
		}})
	}
	fmt.Println(err)
	os.Exit(exitDoomed)
}

const exitDoomed = 3

// Whatever a harness ends by, nothing of its run stays: no file, no process, no container, no network.
func TestRun_harnessEndsBadly_leavesNothing(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Redis(t)
	needs.Test(t)
	t.Parallel() // mostly waits
	codes := map[string]int{"panics": exitDoomed, "panics elsewhere": 2, "killed": -1, "interrupted": exitDoomed}
	for driver, ends := range map[cluster.Driver][]string{
		cluster.Process: {"panics", "panics elsewhere", "killed", "interrupted"},
		cluster.Docker:  {"panics elsewhere", "interrupted"}, // cleaned up by the reaper, and by the program
	} {
		for _, end := range ends {
			t.Run(string(driver)+" "+end, func(t *testing.T) {
				if driver == cluster.Docker {
					needs.Docker(t)
					needs.Program(t, "docker")
				}
				// An engine that has not answered for seconds is none to the child: that is all that a stall excuses.
				stall.Try(t, time.Second, func(try testing.TB) { endsBadly(t, try, driver, end, codes[end]) })
			})
		}
	}
}

func endsBadly(t *testing.T, try testing.TB, driver cluster.Driver, end string, code int) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), doomedVar+"="+string(driver)+","+end, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if line != "running\n" {
		try.Errorf("the child says %q, %v", line, err)
	}
	switch end {
	case "killed":
		_ = cmd.Process.Kill()
	case "interrupted":
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // as a terminal does it: to all of the group
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait() // until its reaper has ended too, which has the same standard error
	if got := cmd.ProcessState.ExitCode(); got != code && !try.Failed() {
		t.Errorf("exit code %d, want %d: %s", got, code, &stderr)
	}
	gone(t, "files", func() []string { return filesIn(dir) })
	gone(t, "processes", func() []string { return processesWith("TMPDIR=" + dir) })
	if driver == cluster.Docker {
		gone(t, "containers", func() []string { return labelled("ps", "-a", cmd.Process.Pid) })
		gone(t, "networks", func() []string { return labelled("network", "ls", cmd.Process.Pid) })
		gone(t, "images", func() []string { return labelled("images", "-a", cmd.Process.Pid) })
	}
}

// gone waits until nothing is left: a killed process is there for a moment after its death.
func gone(t *testing.T, what string, left func() []string) {
	t.Helper()
	var now []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if now = left(); len(now) == 0 {
			return
		}
	}
	t.Errorf("%s left behind: %v", what, now)
}

func filesIn(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	return names
}

// processesWith is the processes that have a variable in their environment, which their children have too. (Of another user's nothing can
// be known.)
func processesWith(variable string) (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00")) {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}

// labelled is what docker lists of the owner with that process id.
func labelled(list, flag string, pid int) (found []string) {
	format := `{{.ID}} {{.Label "redlock.owner"}}`
	args := []string{list, flag}
	if list == "images" {
		// images have no column for labels
		args = append(args, "-q", "--filter", "label=redlock.owner")
		ids, _ := exec.Command("docker", args...).Output()
		for _, id := range strings.Fields(string(ids)) {
			owner, _ := exec.Command("docker", "image", "inspect", "-f", `{{index .Config.Labels "redlock.owner"}}`, id).Output()
			if strings.HasPrefix(string(owner), strconv.Itoa(pid)+"_") {
				found = append(found, id)
			}
		}
		return found
	}
	out, err := exec.Command("docker", append(args, "--filter", "label=redlock.owner", "--format", format)...).Output()
	if err != nil {
		return []string{"docker " + list + ": " + err.Error()}
	}
	for line := range strings.Lines(string(out)) {
		if _, owner, _ := strings.Cut(line, " "); strings.HasPrefix(owner, strconv.Itoa(pid)+"_") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// aboutTime is why a test is run without the race detector.
const aboutTime = "is about time, and about other processes"

// Two runs at once, with the same seed and the same names of everything, do not meet.
func TestRun_twoAtOnce_doNotMeet(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Test(t) // two chaos runs
	needs.Redis(t)
	t.Setenv("TMPDIR", t.TempDir())
	stall.Try(t, 200*time.Millisecond, func(try testing.TB) {
		var wg sync.WaitGroup
		holders := make([]map[string]bool, 2)
		for i := range holders {
			holders[i] = map[string]bool{}
			wg.Go(func() {
				res, err := Run(t.Context(), Config{
					Driver: cluster.Process, Masters: 3, Clients: 2, Duration: 2 * time.Second, Seed: 5, Nemeses: parse(t, "kill-minority,partition", cluster.None),
					Min: &judge.Minimums{Acquisitions: 10}, Report: func(o Outcome) error {
						h, err := history.Load(o.History)
						if err != nil {
							return err
						}
						for _, op := range h.Ops {
							if op.Kind == history.KindLock && op.Outcome == history.OK {
								holders[i][op.Holder] = true
							}
						}
						return nil
					},
				})
				if err != nil {
					t.Errorf("run %d: %v", i, err)
					return
				}
				untimed(t, res)
				if !res.Held() {
					try.Errorf("run %d: %+v", i, res)
				}
			})
		}
		wg.Wait()
		for h := range holders[0] {
			if holders[1][h] {
				t.Errorf("%s is a holder in both", h)
			}
		}
	})
	nothingLeft(t)
}

func TestRun_tooLittleMemory_saysSo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	defer func(was string) { meminfo = was }(meminfo)
	meminfo = filepath.Join(t.TempDir(), "meminfo")
	write := func(text string) {
		if err := os.WriteFile(meminfo, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("MemTotal: 8000000 kB\nMemAvailable:   100000 kB\nSwapFree: 0 kB\n")
	if _, err := Run(t.Context(), Config{Driver: cluster.Process}); err == nil || !strings.Contains(err.Error(), "97 MB of memory are free") || !strings.Contains(err.Error(), "fewer masters") {
		t.Errorf("got %v", err)
	}
	for _, fine := range []string{"MemAvailable: 8000000 kB\n", "of another system\n"} {
		write(fine)
		if err := preflight(5, 3); err != nil {
			t.Errorf("%q: got %v", fine, err)
		}
	}
	nothingLeft(t)
}
