// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) {
	logging.Disable()
	if client.Started() {
		client.Main(work)
	}
	chaos.Serve()
	goleak.VerifyTestMain(m)
}

// Without faults every library excludes, and its locks are granted: an overlap under a nemesis is then the work of the nemesis.
func TestMeasure_noFaults_noOverlaps(t *testing.T) {
	needs.Redis(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range library.Names() {
		t.Run(lib, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			c, err := overlaps(t.Context(), chaos.Config{
				Driver: cluster.Process, Client: self, Library: lib, Masters: 3, Duration: 2 * time.Second, Seed: 1, TTL: 2 * time.Second, MaxTTL: 2 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.Overlaps > 0 || c.Claims < 10 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestRun_badCommandLine(t *testing.T) {
	for _, line := range []string{"", "--lock", "--lock tepid", "--duration 1s", "table more", "table --nemeses tepid", "table --locks tepid", "measure --json x --faults -1s", "measure", "measure --json x --locks tepid", "measure --json x --rounds 0", "results", "results a b"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &out, &errs); code != 2 {
			t.Errorf("%q: exit code %d: %s", line, code, &errs)
		}
	}
	if !names([]string{"--lock=redsync"}) || !names([]string{"--seed", "1", "-lock", "redislock"}) {
		t.Error("a library was not found on the command line")
	}
}
