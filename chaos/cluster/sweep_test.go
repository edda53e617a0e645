// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

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
		removedBefore, err := leftover.Sweep(t.Context())
		must(t, err)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()

		removed, err := leftover.Sweep(t.Context())
		must(t, err)
		counts := map[string]int{}
		for _, r := range removed {
			kind, name, _ := strings.Cut(r, " ")
			counts[kind]++
			if kind == "directory" && name != dir {
				t.Errorf("removed the directory %s", name)
			}
		}
		want := map[string]int{"directory": 1}
		if driver == Docker {
			want["container"], want["network"] = 2, 1
			if strings.HasPrefix(live.driver.(*containers).image, localRepository) {
				want["image"] = 1
			}
		}
		for kind, n := range want {
			if counts[kind] != n {
				t.Errorf("removed %v, want %d of kind %s; while the program lived: %v", removed, n, kind, removedBefore)
			}
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
		wantAnswers(t, live.Masters()[0], true)
	})
}
