// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/cluster/leftover"
)

// orphanVar makes the test binary open a cluster under the driver it names, say where, and wait to be killed.
const orphanVar = "REDLOCK_CLUSTER_ORPHAN"

func orphan(driver Driver) {
	c, err := Open(context.Background(), Config{Driver: driver, Masters: 2})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready", c.dir, c.masters[0].Addr())
	select {}
}

func TestSweep_killedProgram_leavesNothing(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		t.Setenv("TMPDIR", t.TempDir()) // other programs sweep the usual one
		live := open(t, Config{Driver: driver, Masters: 1})

		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), orphanVar+"="+string(driver))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		fields := strings.Fields(line)
		if err != nil || len(fields) != 3 || fields[0] != "ready" {
			t.Fatalf("the child says %q (%v)", line, err)
		}
		dir := fields[1]
		want := 0
		if driver == Docker {
			want = 2 + 1 // containers and the network
			if strings.HasPrefix(live.driver.(*containers).image, localRepository) {
				want++
			}
		}
		removed := sweep(t, func() bool { return true })
		if n := inEngine(t, driver, dir); n != want {
			t.Errorf("the engine has %d things of the program, want %d; while it lived there was removed %v", n, want, removed)
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()

		removed = sweep(t, func() bool { return inEngine(t, driver, dir) == 0 })
		var dirs []string
		for _, r := range removed {
			if kind, name, _ := strings.Cut(r, " "); kind == "directory" {
				dirs = append(dirs, name)
			}
		}
		if !slices.Equal(dirs, []string{dir}) {
			t.Errorf("removed the directories %v, want %s", dirs, dir)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
		wantAnswers(t, live.Masters()[0], true)
	})
}

// sweep sweeps until that has gone well and done is true, and returns what it removed. In the engine another program may be removing the same: then
// that is missing in what this one removed, or an error.
func sweep(t *testing.T, done func() bool) (removed []string) {
	t.Helper()
	for end := time.Now().Add(aWhile); ; time.Sleep(100 * time.Millisecond) {
		more, err := leftover.Sweep(t.Context())
		removed = append(removed, more...)
		switch {
		case err == nil && done():
			return removed
		case time.Now().After(end):
			t.Fatalf("not swept within %v: %v; removed %v", aWhile, err, removed)
		}
	}
}

// inEngine returns how much the engine has of the program that made the directory.
func inEngine(t *testing.T, driver Driver, dir string) (n int) {
	t.Helper()
	if driver != Docker {
		return 0
	}
	pool, _, err := leftover.Engine()
	must(t, err)
	_, err = leftover.Purge(t.Context(), pool.Client, func(labels map[string]string) bool {
		if owner := labels["redlock.owner"]; owner != "" && strings.Contains(dir, "-"+owner+"-") {
			n++
		}
		return false
	})
	must(t, err)
	return n
}
