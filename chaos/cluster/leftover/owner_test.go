// SPDX-License-Identifier: Apache-2.0

package leftover

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
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
	of := func(pid any, namespace, host string) owner {
		return owner(fmt.Sprintf("%v_1_%s_%s", pid, namespace, host))
	}
	ns := pidNamespace()
	for o, want := range map[owner]bool{
		of(os.Getpid(), ns, hostname()):                true, // our id, another start
		of(pid, ns, hostname()):                        true,
		of(pid, ns, "elsewhere"):                       false,
		of(pid, "7", hostname()):                       false, // a container with our hostname, whose processes we do not see
		of("x", ns, hostname()):                        false,
		of(0, ns, hostname()):                          false,
		owner(fmt.Sprintf("%d_1_%s", pid, hostname())): false, // of a build that did not name the namespace
		"": false, "x": false,
	} {
		if got := o.dead(); got != want {
			t.Errorf("owner %q dead: %v, want %v", o, got, want)
		}
	}
}

// A process of Linux has the namespace in its name, so that one of a container is told from one of the host. A name is part of a pattern of
// files, and has no brackets.
func TestOwner_self_hasTheNamespace(t *testing.T) {
	needs.Linux(t, "reads /proc")
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if ns := pidNamespace(); len(ns) < 5 || !strings.Contains(link, "["+ns+"]") || strings.ContainsAny(string(self()), ":[]") {
		t.Errorf("%s, and the namespace is %s", self(), link)
	}
}
