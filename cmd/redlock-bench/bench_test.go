// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/page/pagetest"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// brief is a command line that takes little time.
const brief = "--duration 300ms --masters 3 --json "

func decode(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return m
}

// has complains of fields that are not there or no numbers above or equal to least.
func has(t testing.TB, m map[string]any, least float64, fields ...string) {
	t.Helper()
	for _, f := range fields {
		if x, ok := m[f].(float64); !ok || x < least {
			t.Errorf("%s is %v, want a number of %v or more; there are %v", f, m[f], least, slices.Sorted(maps.Keys(m)))
		}
	}
}

func cells(t testing.TB, m map[string]any, want int) (cells []map[string]any) {
	t.Helper()
	list, _ := m["cells"].([]any)
	if len(list) != want {
		t.Fatalf("%d cells, want %d", len(list), want)
	}
	for _, c := range list {
		cells = append(cells, c.(map[string]any))
	}
	return cells
}

// isPage complains unless the file is a good page that has these.
func isPage(t testing.TB, file string, wants ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	pagetest.Check(t, string(text))
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

func checkHead(t testing.TB, m map[string]any, command, backend string, masters float64) {
	t.Helper()
	if m["command"] != command || m["backend"] != backend || m["masters"] != masters || m["ttl_ms"] != 10000.0 {
		t.Errorf("head %v %v %v %v", m["command"], m["backend"], m["masters"], m["ttl_ms"])
	}
	if m["interrupted"] != nil {
		t.Error("says it was interrupted")
	}
}

func TestLatency_ownMasters_JSONAndTable(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		file := filepath.Join(t.TempDir(), "result.json")
		page := filepath.Join(t.TempDir(), "page.html")
		code, stdout, stderr := bench(t, strings.Fields("latency --callers 1,4 --html "+page+" "+brief+file)...)
		if code != exitOK || stderr != "" {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		tidy(t, stdout)
		first, _, _ := strings.Cut(stdout, "\n")
		if want := "masters  3 redis-server "; !strings.HasPrefix(first, want) || !strings.Contains(first, "throw-away") {
			t.Errorf("first line %q, want %q... throw-away", first, want)
		}
		for _, want := range []string{"no persistence, ports ", "  1 lock ", "  4 lock ", " floor ", " ratio "} {
			if !strings.Contains(stdout, want) {
				t.Errorf("no %q in\n%s", want, stdout)
			}
		}
		text, err := os.ReadFile(file)
		must(t, err)
		m := decode(t, text)
		checkHead(t, m, "latency", "redis-server", 3)
		if run := m["run"].(map[string]any); run["command"] != "redlock-bench latency --callers 1,4 --duration 300ms --masters 3" || !strings.Contains(run["masters"].(string), "3 redis-server") {
			t.Errorf("run %v", run)
		}
		isPage(t, page, "4 callers", "of the floor’s rate", `id="pile1"`, `id="course1"`)
		for i, c := range cells(t, m, 2) {
			if turns := c["turns_pairs_per_second"].([]any); len(turns) != 6 {
				t.Errorf("turns %v", turns)
			}
			has(t, c, []float64{1, 4}[i], "callers")
			has(t, c, 1, "pairs_per_second", "p50_us", "p99_us", "p999_us", "max_us", "cpu_us_per_pair", "masters_cpu_us_per_pair")
			has(t, c, 0, "errors")
			has(t, c["floor"].(map[string]any), 1, "pairs_per_second", "p50_us", "cpu_us_per_pair", "masters_cpu_us_per_pair")
			has(t, c["ratio"].(map[string]any), 0.01, "pairs_per_second", "pairs_per_second_p25", "pairs_per_second_p50", "pairs_per_second_p75", "p50", "cpu", "masters_cpu")
			if c["errors"] != 0.0 || c["p50_us"].(float64) > c["p99_us"].(float64) || c["p99_us"].(float64) > c["max_us"].(float64) {
				t.Errorf("%v", c)
			}
		}
	})
}

func TestLatency_masterHurt_measuredAllTheSame(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		for _, how := range []string{masters.HurtStop, masters.HurtKill} {
			code, stdout, stderr := bench(t, strings.Fields("latency --callers 4 --hurt "+how+" "+brief+"-")...)
			if code != exitOK || !strings.Contains(stderr, "hurt: "+how+" of one master") {
				t.Fatalf("%s: exit code %d, stderr %q", how, code, stderr)
			}
			tidy(t, stderr)
			m := decode(t, []byte(stdout))
			checkHead(t, m, "latency", "redis-server", 3)
			c := cells(t, m, 1)[0]
			has(t, c, 1, "pairs_per_second", "masters_cpu_us_per_pair")
			has(t, c["floor"].(map[string]any), 1, "pairs_per_second")
			if m["hurt"] != how {
				t.Errorf("%s: %v", how, m)
			}
		}
	})
}

func TestContention_ownMasters_JSONAndTable(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		page := filepath.Join(t.TempDir(), "page.html")
		code, stdout, stderr := bench(t, strings.Fields("contention --waiters 1,8 --html "+page+" "+brief+"-")...)
		isPage(t, page, "No two waiters ever had the lock at once", "waiter 8", `id="holds1"`, `id="waited1"`, `id="shares1"`, `id="rates1"`)
		if code != exitOK {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		tidy(t, stderr) // the table, for stdout is the JSON's
		if !strings.Contains(stderr, "waiters acquired") || strings.Contains(stderr, "VIOLATION") {
			t.Errorf("table:\n%s", stderr)
		}
		m := decode(t, []byte(stdout))
		checkHead(t, m, "contention", "redis-server", 3)
		for i, c := range cells(t, m, 2) {
			has(t, c, []float64{1, 8}[i], "waiters")
			has(t, c, 1, "acquisitions_per_second", "wait_p50_us", "wait_p99_us", "wait_max_us")
			has(t, c, 0.01, "jain", "commands_per_acquisition", "max_share", "hold_ms")
			has(t, c, 0, "overlaps", "min_share", "errors", "lost")
			if c["overlaps"] != 0.0 || c["errors"] != 0.0 {
				t.Errorf("%v", c)
			}
		}
		alone := cells(t, m, 2)[0]
		// An acquire and a release; at the end of the run one of them may be missing, or one more.
		if n := alone["commands_per_acquisition"].(float64); n < 1.8 || n > 2.2 {
			t.Errorf("%v commands for a lock that nobody else wants, want 2", n)
		}
		if alone["jain"] != 1.0 || alone["clients"] != 1.0 || cells(t, m, 2)[1]["clients"] != 4.0 {
			t.Errorf("%v", alone)
		}
	})
}

func TestTour_givenMasters_bothParts(t *testing.T) {
	needs.Test(t)
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		nodes := startURLs(t, 3)
		code, stdout, stderr := bench(t, "--nodes", strings.Join(nodes, ","), "--init", "--duration", "100ms", "--json", "-")
		if code != exitOK {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		tidy(t, stderr)
		if !strings.HasPrefix(stderr, "masters  3 of yours (--nodes): redis ") {
			t.Errorf("begins with %q", stderr[:min(len(stderr), 80)])
		}
		m := decode(t, []byte(stdout))
		checkHead(t, m, "tour", "nodes", 3)
		c := cells(t, m, 5)
		has(t, c[2], 64, "callers")
		has(t, c[4], 64, "waiters")
	})
}

// A master of the user's that is down, of three: the lock is measured as it is, beside a floor that needs as many masters as the lock does.
func TestRun_givenMasterDown_measuredAllTheSame(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		servers, err := localredis.StartN(t.Context(), 3, localredis.Config{})
		must(t, err)
		var urls []string
		for _, s := range servers {
			t.Cleanup(func() { _ = s.Close() })
			urls = append(urls, s.URL())
		}
		nodes := strings.Join(urls, ",")
		args := func(command string) []string {
			return strings.Fields(command + " --duration 300ms --json - --nodes " + nodes)
		}
		if code, _, stderr := bench(t, args("latency --callers 1 --init")...); code != exitOK {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		must(t, servers[2].Close())
		code, stdout, stderr := bench(t, args("latency --callers 4")...)
		if code != exitOK {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		tidy(t, stderr)
		for _, want := range []string{servers[2].Addr() + " (does not answer)", "3 of yours (--nodes), 1 down: redis ", "the floor and CPU are of the 2 masters that answer"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("no %q in\n%s", want, stderr)
			}
		}
		m := decode(t, []byte(stdout))
		checkHead(t, m, "latency", "nodes", 3)
		c := cells(t, m, 1)[0]
		has(t, c, 1, "pairs_per_second", "masters_cpu_us_per_pair")
		has(t, c["floor"].(map[string]any), 1, "pairs_per_second")
		if code, stdout, stderr = bench(t, args("contention --waiters 1")...); code != exitOK {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		c = cells(t, decode(t, []byte(stdout)), 1)[0]
		if n, _ := c["commands_per_acquisition"].(float64); n < 1.8 || n > 2.2 {
			t.Errorf("%v commands on each master that answers, want 2", n)
		}
	})
}

// Masters of another maximum TTL are measured by what the error advises. No flag is for another drift.
func TestNodes_otherMaximumTTL_adviceWorks(t *testing.T) {
	needs.Redis(t)
	asProgram(t)
	urls := startURLs(t, 3)
	list := func(opts ...redlock.Option) admin.List {
		return admin.List{URLs: urls, Options: append(opts, redlock.WithMaxTTL(2*time.Second), redlock.WithTTL(time.Second))}
	}
	measure := func(words string) (code int, said string) {
		code, _, said = bench(t, strings.Fields(words+" --duration 100ms --nodes "+strings.Join(urls, ","))...)
		return code, said
	}
	const both = "give the same list and --max-ttl, or move the list with redlock reconfigure"
	if code, said := measure("latency --callers 1"); code != exitMasters || !strings.Contains(said, "--init") {
		t.Errorf("new masters: exit code %d: %s", code, said)
	}
	must(t, admin.Init(t.Context(), list(), nil, admin.NothingWasEverLocked))
	if code, said := measure("latency --callers 1"); code != exitMasters || !strings.Contains(said, both) || strings.Contains(said, "admin.") || strings.Contains(said, "--drift") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if code, said := measure("latency --callers 1 --init"); code != exitMasters || !strings.Contains(said, "so give --max-ttl 2s") {
		t.Errorf("exit code %d: %s", code, said)
	}
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		for _, words := range []string{"latency --callers 1 --max-ttl 2s", "latency --callers 1 --init --max-ttl 2s", "contention --waiters 2 --processes 1 --max-ttl 2s"} {
			if code, said := measure(words); code != exitOK {
				t.Errorf("%s: exit code %d: %s", words, code, said)
			}
		}
	})
	for _, url := range urls {
		o, err := masterurl.Connection(url)
		must(t, err)
		c := redis.NewClient(o)
		must(t, c.FlushAll(t.Context()).Err())
		must(t, c.Close())
	}
	must(t, admin.Init(t.Context(), list(redlock.WithDrift(clock.Drift{Factor: 0.02, Constant: time.Millisecond})), nil, admin.NothingWasEverLocked))
	for _, words := range []string{"latency --callers 1 --max-ttl 2s", "latency --callers 1 --init --max-ttl 2s"} {
		if code, said := measure(words); code != exitMasters || !strings.Contains(said, "redlock-bench has no --drift") {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
}

// Of masters that all are down nothing is known.
func TestNodes_allDown_saysNoMore(t *testing.T) {
	hurry(t)
	_, stdout, _ := bench(t, "latency", "--callers", "1", "--nodes", "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3")
	if !strings.Contains(stdout, "3 of yours (--nodes), 3 down\n") {
		t.Errorf("%s", stdout)
	}
}

func TestTour_noRedisServer_embeddedAndSaysSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := bench(t, strings.Fields(brief+"-")...)
	if code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	tidy(t, stderr)
	if !strings.HasPrefix(stderr, "masters  3 EMBEDDED in this process") {
		t.Errorf("begins with %q", stderr[:min(len(stderr), 80)])
	}
	if n := strings.Count(stderr, "EMBEDDED"); n != 3 { // the first line and both tables
		t.Errorf("EMBEDDED stands %d times in\n%s", n, stderr)
	}
	if n := strings.Count(stderr, "not available on embedded masters"); n != 2 {
		t.Errorf("not available stands %d times in\n%s", n, stderr)
	}
	m := decode(t, []byte(stdout))
	checkHead(t, m, "tour", "embedded", 3)
	all := cells(t, m, 5)
	for _, f := range []string{"floor", "ratio", "masters_cpu_us_per_pair"} {
		if v, ok := all[0][f]; v != nil || !ok {
			t.Errorf("%s is %v, want null", f, v)
		}
	}
	if v, ok := all[4]["commands_per_acquisition"]; v != nil || !ok {
		t.Errorf("commands_per_acquisition is %v, want null", v)
	}
}

// The known-bad case from end to end: each client gets masters of its own, so that no two exclude each other.
func TestContention_clientsOnDifferentMasters_violationSeen(t *testing.T) {
	bad := masters.New(masters.Embedded, 3)
	bad.NewClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		return masters.OpenEmbedded(3).NewClient(opts...)
	}
	c := &contention{setup: setup{ttl: time.Second, duration: time.Second}, waiters: counts{4}, clients: 2, hold: time.Millisecond}
	var table bytes.Buffer
	err := c.cells(t.Context(), bad, &report{table: &table, progress: &termline.Line{}})
	if exitCode(err) != exitViolation || !strings.Contains(table.String(), "VIOLATION") {
		t.Errorf("exit code %d, %v\n%s", exitCode(err), err, &table)
	}
}

func TestRun_mastersNotThere_exit3(t *testing.T) {
	hurry(t)
	for _, args := range [][]string{
		{"latency", "--nodes", "redis://127.0.0.1:1"},
		{"contention", "--nodes", "redis://127.0.0.1:1,redis://127.0.0.1:1,redis://127.0.0.1:1"},
		{"--nodes", "redis://:topsecret@127.0.0.1:1"},
	} {
		code, _, stderr := bench(t, args...)
		if code != exitMasters || !strings.Contains(stderr, "127.0.0.1:1") || strings.Contains(stderr, "topsecret") {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
		if said := strings.TrimSuffix(stderr, "\n"); strings.ContainsAny(said, "\n\t") || said == "" {
			t.Errorf("%v: no one line: %q", args, stderr)
		}
	}
}

func TestRun_replicaGiven_exit3(t *testing.T) {
	m := start(t, localredis.Config{})
	r := start(t, localredis.Config{ReplicaOf: m.Addr()})
	code, _, stderr := bench(t, "latency", "--nodes", r.URL())
	if code != exitMasters || !strings.Contains(stderr, "not a master") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestExitCode(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errViolation, 1},
		{errors.Join(errViolation, context.Canceled), 1}, // what was seen stays seen
		{usageError{errors.New("x")}, 2},
		{errors.New("x"), 3},
		{context.Canceled, 130},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}

// What broke off says so in its results: they are not those of a whole measurement.
func TestMeasure_brokeOff_resultsSayWhy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for what, tc := range map[string]struct {
		err  error
		want any
	}{
		"all was measured":         {nil, nil},
		"a violation":              {errViolation, nil},
		"the second cell failed":   {errors.New("no quorum"), "no quorum"},
		"and the first violated":   {errors.Join(errViolation, errors.New("no quorum")), "violation: no quorum"},
		"a context that was ended": {context.DeadlineExceeded, "context deadline exceeded"}, // not the run's
	} {
		s := &setup{masters: 1, ttl: time.Second, json: "-"}
		var stdout bytes.Buffer
		err := s.measure(t.Context(), output{&stdout, &bytes.Buffer{}}, "contention", func(context.Context, *masters.Backend, *report) error { return tc.err })
		if got := decode(t, stdout.Bytes())["broke_off"]; !errors.Is(err, tc.err) || got != tc.want {
			t.Errorf("%s: %v; broke off: %v, want %v", what, err, got, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &setup{masters: 1, ttl: time.Second, json: "-"}
	var stdout bytes.Buffer
	_ = s.measure(ctx, output{&stdout, &bytes.Buffer{}}, "contention", func(ctx context.Context, _ *masters.Backend, _ *report) error {
		cancel()
		return ctx.Err()
	})
	if m := decode(t, stdout.Bytes()); m["broke_off"] != nil || m["interrupted"] != true {
		t.Errorf("interrupted: %v", m)
	}
}

// A run that ended with a violation also says which results it could not write.
func TestMeasure_violationAndFileNotWritten_saysBoth(t *testing.T) {
	const full = "/dev/full" // can be opened and not written, as on a disk that is full
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	t.Setenv("PATH", t.TempDir())
	s := &setup{masters: 1, ttl: time.Second, json: full}
	var stderr bytes.Buffer
	err := s.measure(t.Context(), output{&bytes.Buffer{}, &stderr}, "contention", func(context.Context, *masters.Backend, *report) error { return errViolation })
	if exitCode(err) != exitViolation || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d, want %d and the error: %s", exitCode(err), exitViolation, &stderr)
	}
}
