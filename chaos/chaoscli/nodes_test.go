// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Without a terminal and --yes nothing is done. What is said has the masters and the keys, and no password.
func TestRun_nodes_saysWhatItWillDo(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	const password = "swordfish"
	servers, err := localredis.StartN(t.Context(), 3, localredis.Config{Password: password})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
		urls = append(urls, "redis://:"+password+"@"+s.Addr())
	}
	in, out, err := os.Pipe() // no terminal
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin }()
	nodes := []string{"--nodes", strings.Join(urls, ","), "--seed", "7"}
	code, _, stderr := cli(t, t.Context(), nodes...)
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{servers[2].Addr() + ": redis", "redlock-chaos-7:", "redlock:node", "freeze-client", "give --yes"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q: %s", want, stderr)
		}
	}
	stdout, more := holds(t, append(nodes, "--yes", "--duration", "1s", "--nemesis", "waiter-storm")...)
	if strings.Contains(stderr+stdout+more, password) {
		t.Error("the password was printed")
	}
	servers[1].Close()
	if code, _, stderr = cli(t, t.Context(), nodes...); code != exitNothing || strings.Contains(stderr, password) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// What an interrupted run cannot remove is said, and that it removes something, which can take a minute.
func TestRun_nodesInterrupted_saysWhatIsLeft(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	servers, err := localredis.StartN(t.Context(), 3, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
		urls = append(urls, "redis://"+s.Addr())
	}
	watch := redis.NewClient(&redis.Options{Addr: servers[0].Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = watch.Close() })
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	killed := make(chan error, 1)
	go func() {
		defer interrupt()
		for end := time.Now().Add(time.Minute); watch.DBSize(ctx).Val() < 5 && time.Now().Before(end); { // the record, and some locks
			time.Sleep(10 * time.Millisecond)
		}
		killed <- servers[2].Kill()
	}()
	code, _, stderr := cli(t, ctx, "--nodes", strings.Join(urls, ","), "--yes", "--seed", "7", "--duration", "5m", "--nemesis", "waiter-storm")
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if code != exitNothing {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"interrupted: cleaning up: deleting the keys of the run from your masters, for 1m0s at most\n",
		"redlock-bench chaos: interrupted; nothing was judged",
		"redlock-bench chaos: could not clean up: chaos: delete redlock:node and the keys *redlock-chaos-7:* on " + servers[2].Addr() + ": ",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q: %s", want, stderr)
		}
	}
}

// Nobody to be asked, and an interruption, are a no. What is a yes is internal/interrupt's.
func TestAsk(t *testing.T) {
	var b bytes.Buffer
	device, err := os.Open(os.DevNull) // as in CI; a terminal is a device too
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, in := range []*os.File{os.NewFile(^uintptr(0), "closed"), device} {
		if err := ask(t.Context(), in, &b); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), "give --yes") || b.Len() > 0 {
			t.Errorf("%s: nobody was asked and it said %v, %q", in.Name(), err, &b)
		}
	}
	if err := agreed(t.Context(), device, &b); err == nil || err.Error() != "nothing was done" {
		t.Errorf("no answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := agreed(ctx, device, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// The plan names what may strike a master, also as one of three at once, and says what a harness that is killed leaves.
func TestPlan_allowed_saysWhatMayStrikeMasters(t *testing.T) {
	for line, allowed := range map[string]string{
		"waiter-storm": "",
		"waiter-storm,administer --allow administer": "administer",
		"three-at-once --allow administer":           "administer",
		"three-at-once --allow delete-lock":          "delete-lock",
		"delete-lock --allow delete-lock":            "delete-lock",
		"all --allow administer,delete-lock":         "administer",
		"three-at-once":                              "",
	} {
		var b bytes.Buffer
		f, _ := flagsOf(t, "--nodes redis://a,redis://b,redis://c --nemesis "+line)
		cfg, err := f.config()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		plan(&b, cfg, nil)
		said := b.String()
		if strings.Contains(said, "as --allow says: ") != (allowed != "") || strings.Count(said, allowed+" (") != 1 && allowed != "" {
			t.Errorf("%s: %s", line, said)
		}
		if busy := allowed == "administer"; strings.Contains(said, "lua-time-limit to 10") != busy || strings.Contains(said, "changes no setting") == busy {
			t.Errorf("%s: %s", line, said)
		}
	}
}
