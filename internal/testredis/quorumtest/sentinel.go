// SPDX-License-Identifier: Apache-2.0

package quorumtest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// sentinelTries is how often a port is chosen: another program may take it before the sentinel has it.
const sentinelTries = 4

// SentinelPatience is for how many milliseconds a master may be silent before the sentinel of StartSentinel fails over: longer than a busy
// machine holds a test up. A test of a failover sets down-after-milliseconds lower when the master is to be down.
const SentinelPatience = "60000"

// StartSentinel starts a real redis-sentinel that watches the master at addr under the name "mine" and fails over by itself, after
// SentinelPatience. It returns the sentinel's address. conf has more lines of its configuration. The sentinel ends with the test.
func StartSentinel(t testing.TB, addr string, conf ...string) string {
	t.Helper()
	binary, _, err := localredis.Find()
	NoErr(t, err)
	for range sentinelTries {
		if at := startSentinel(t, binary, addr, conf); at != "" {
			return at
		}
	}
	t.Fatal("the sentinel ends at once")
	return ""
}

// startSentinel returns "" if the sentinel ended at once.
func startSentinel(t testing.TB, binary, master string, conf []string) string {
	t.Helper()
	port, addr := FreePort(t)
	host, masterPort, err := net.SplitHostPort(master)
	NoErr(t, err)
	dir := t.TempDir()
	lines := append([]string{"port " + port, "bind 127.0.0.1", "dir " + dir}, conf...)
	lines = append(lines, "sentinel monitor mine "+host+" "+masterPort+" 1",
		"sentinel down-after-milliseconds mine "+SentinelPatience, "sentinel failover-timeout mine 3000", "")
	file := filepath.Join(dir, "sentinel.conf") // which it rewrites
	NoErr(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, file, "--sentinel")
	NoErr(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	for end := time.Now().Add(10 * time.Second); c.Ping(t.Context()).Err() != nil; time.Sleep(2 * time.Millisecond) {
		select {
		case <-ended:
			return ""
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the sentinel does not answer")
		}
	}
	select {
	case <-ended: // another program answered on its port
		return ""
	default:
	}
	return addr
}
