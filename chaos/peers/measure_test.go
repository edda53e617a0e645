// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/chaos/peers/rivals"
	"github.com/redlock-go/redlock/internal/needs"
)

// A short measurement of every library, read back as a page. A library may be unlucky for as long as it pauses between its tries, a quarter
// of a second with redsync's own setting, so the measurement is made longer until each has had its lock.
func TestMeasure_everyLibrary_rawAndPage(t *testing.T) {
	needs.Redis(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "raw.json")
	var r *rivals.Data
	all := append(library.Names(), library.Floor, library.Resp)
	for d := 100 * time.Millisecond; ; d *= 4 {
		var out, errs bytes.Buffer
		args := strings.Fields(fmt.Sprintf("measure --rounds 1 --duration %v --cells own-1,hot-8,open-16 --locks %s --held 2000 --held-ttl 3s --commit abc --json %s", d, strings.Join(all, ","), file))
		if code := run(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		var err error
		if r, _, err = rivals.Read(file); err != nil || len(r.Cells) != 3 || r.Run.Build != "abc" {
			t.Fatalf("%v, %+v", err, r)
		}
		idle := func(c *rivals.Cell) bool {
			return slices.ContainsFunc(library.Names(), func(lib string) bool { return len(c.Rounds[lib]) == 1 && c.Rounds[lib][0].Rate == 0 })
		}
		if d > 5*time.Second || !slices.ContainsFunc(r.Cells, idle) {
			break
		}
	}
	for _, c := range r.Cells {
		for _, lib := range all {
			if !answers(lib, c) {
				continue
			}
			if fs := c.Rounds[lib]; len(fs) != 1 || fs[0].Rate <= 0 || fs[0].P50 <= 0 || fs[0].P99 < fs[0].P50 || fs[0].CPU <= 0 {
				t.Errorf("%s, %s: %+v", c.ID, lib, fs)
			}
		}
	}
	for _, h := range r.Held {
		if h.Lost > 0 || h.Leases != 2000 || h.For < h.TTL || h.Memory <= 0 || h.Keys <= 0 {
			t.Errorf("%+v", h)
		}
	}
	if len(r.Held) != len(renewing) {
		t.Errorf("%d libraries kept locks, want %d", len(r.Held), len(renewing))
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"results", "--out", dir, file}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "results.md")); err != nil || !strings.Contains(string(page), "rueidislock (one master)") {
		t.Errorf("%v: %s", err, page)
	}
}

func TestReadable_roundsOfALibrary_areALine(t *testing.T) {
	want := &rivals.Data{Cells: []*rivals.Cell{{ID: "x", Rounds: map[string][]rivals.Figures{"a": {{Rate: 1}, {Rate: 2}}, "b": {{Rate: 3}}}}}}
	text, err := readable(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &rivals.Data{}
	if err := json.Unmarshal(text, got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v", err, got)
	}
	if !regexp.MustCompile(`\n    "a": \[\{.*\},\{.*\}\],\n    "b": \[\{.*\}\]\n   \}\n`).Match(text) {
		t.Errorf("%s", text)
	}
}

// What is no library of this module is measured where it can be started, and else left out with the line that installs it.
func TestMeasure_javaAndEtcd_orSaysWhatIsMissing(t *testing.T) {
	needs.Redis(t)
	needs.CI(t) // Java takes three seconds to warm up
	file := filepath.Join(t.TempDir(), "raw.json")
	var out, errs bytes.Buffer
	if code := run(t.Context(), strings.Fields("measure --rounds 1 --duration 1s --cells own-1,hot-8-0,many-1k,far-1 --locks redlock,redisson,etcd --json "+file), &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	r, _, err := rivals.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range []string{redissonName, etcdName} {
		if why := absent(lib); why != nil {
			if !strings.Contains(errs.String(), "left out: "+lib) || !strings.Contains(errs.String(), "apt-get install -y") {
				t.Errorf("%v: said %s", why, &errs)
			}
			continue
		}
		for _, c := range r.Cells {
			if lib == etcdName && c.Delay > 0 {
				if len(c.Rounds[lib]) > 0 {
					t.Error("etcd has other servers, which are not far")
				}
			} else if fs := c.Rounds[lib]; len(fs) != 1 || fs[0].Rate <= 0 || fs[0].P99 < fs[0].P50 || fs[0].CPU <= 0 || fs[0].Masters <= 0 || fs[0].Failures > 0 {
				t.Errorf("%s, %s: %+v", c.ID, lib, fs)
			}
		}
	}
}

// What cannot be measured, or not be written, is said before anything is measured.
func TestMeasure_badCellsOrFile_isUsage(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"--cells own-1,own-2 --json " + dir + "/raw.json": `no question "own-2": want own-1, own-16, `,
		"--cells own-1, --json " + dir + "/raw.json":      `no question "": want own-1, own-16, `,
		"--cells own-1 --json " + dir + "/none/raw.json":  "no such file",
		"--cells own-1 --json " + dir:                     "is a directory",
	} {
		var out, errs bytes.Buffer
		line := "measure --rounds 1 --duration 1ms --locks redlock " + args
		if code := run(t.Context(), strings.Fields(line), &out, &errs); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "round") {
			t.Errorf("%s: exit code %d, %s%s, want %q", args, code, &out, &errs, want)
		}
	}
	// A measurement that breaks off leaves what was in the file.
	file := filepath.Join(dir, "raw.json")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	code := run(ctx, strings.Fields("measure --rounds 1 --cells own-1 --locks redlock --json "+file), &errs, &errs)
	if text, err := os.ReadFile(file); code != 3 || err != nil || string(text) != "before" {
		t.Errorf("exit code %d, %v: %q: %s", code, err, text, &errs)
	}
}

func TestContention_nobodyToMeasure_isUsage(t *testing.T) {
	for _, args := range []string{"--clients 0", "--clients -1", "--waiters 8,0", "--duration 0s"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields("contention --locks redlock "+args), &out, &errs); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "above 0") {
			t.Errorf("%s: exit code %d, %s%s", args, code, &out, &errs)
		}
	}
}

// A caller of an open loop that was answered late counts from when it was to ask.
func TestPress_openLoop_countsFromWhenItWasToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := press{library: "slow", waiters: 2, own: true, period: 100 * time.Millisecond}
		saw := p.take(ctx, slowLocks(150*time.Millisecond), 1, time.Now())
		var want []time.Duration
		for n := range 7 { // it is to ask at 50, 150, 250 ms.., and is answered 150 ms after it could ask
			want = append(want, 150*time.Millisecond+time.Duration(n)*50*time.Millisecond)
		}
		if !slices.Equal(saw.waits, want) || saw.failures != 0 {
			t.Errorf("%v, %d failures; want %v", saw.waits, saw.failures, want)
		}
	})
}

// slowLocks gives every lock after a while.
type slowLocks time.Duration

func (d slowLocks) Take(context.Context, string) (library.Lease, error) {
	time.Sleep(time.Duration(d))
	return library.Lease{Release: func(context.Context) error { return nil }}, nil
}

func (slowLocks) Close() {}
