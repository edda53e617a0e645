// SPDX-License-Identifier: Apache-2.0

package leftover

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

func TestOwner_dead_onlyWhenSurelyGone(t *testing.T) {
	if self().dead() {
		t.Error("we are dead")
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	pid := gone.Process.Pid
	for o, want := range map[owner]bool{
		owner(fmt.Sprintf("%d_1_%s", os.Getpid(), hostname())): true, // our id, another start
		owner(fmt.Sprintf("%d_1_%s", pid, hostname())):         true,
		owner(fmt.Sprintf("%d_1_%s", pid, "elsewhere")):        false,
		"": false, "x": false, owner("x_1_" + hostname()): false, owner("0_1_" + hostname()): false,
	} {
		if got := o.dead(); got != want {
			t.Errorf("owner %q dead: %v, want %v", o, got, want)
		}
	}
}
