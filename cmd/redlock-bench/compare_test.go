// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/compare"
)

// runsFile writes a file as n runs of latency leave it.
func runsFile(t *testing.T, n int, rate float64) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"command":"latency","masters":5,"run":{"at":"2026-11-24T20:00:00Z","build":"abc"},"cells":[{"callers":16,"pairs_per_second":%v,"p50_us":%v,"p99_us":123456789}]}`+"\n",
			rate+float64(i), 80+i%2)
	}
	name := fmt.Sprint(n, "x", rate, ".json")
	must(t, os.WriteFile(name, []byte(text.String()), 0o600))
	return name
}

func TestCompare_tenRuns_table(t *testing.T) {
	t.Chdir(t.TempDir())
	code, stdout, stderr := bench(t, "compare", runsFile(t, 10, 12_000), runsFile(t, 10, 14_000))
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	tidy(t, stdout)
	for _, want := range []string{
		"10 runs, the first at 2026-11-24 20:00 UTC by abc", "latency, 16 callers\n",
		"locks/s         12.0k     12.0k - 12.0k   14.0k     14.0k - 14.0k  +16.7% <0.001\n",
		"p99 us           123M       123M - 123M    123M       123M - 123M       ~  1.000\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// No percentage leads from 0 to something.
func TestReportComparison_oldMedianIsZero_saysFrom0(t *testing.T) {
	for _, tc := range []struct {
		old, new float64
		want     string
	}{{0, 5, "from 0 <0.001\n"}, {0, 0, " +0.0% <0.001\n"}, {5, 0, "-100.0% <0.001\n"}} {
		var out bytes.Buffer
		(&report{table: &out}).comparison(compare.Cell{Rows: []compare.Row{{Name: "p99", Old: compare.Side{Median: tc.old}, New: compare.Side{Median: tc.new}}}})
		if !strings.Contains(out.String(), tc.want) {
			t.Errorf("from %v to %v: no %q in\n%s", tc.old, tc.new, tc.want, &out)
		}
	}
}

func TestCompare_oneRun_saysSo(t *testing.T) {
	t.Chdir(t.TempDir())
	_, stdout, _ := bench(t, "compare", runsFile(t, 1, 12_000), runsFile(t, 1, 14_000))
	if !strings.Contains(stdout, "one run each") || !strings.Contains(stdout, "n=1") || strings.Contains(stdout, "+16") {
		t.Errorf("%s", stdout)
	}
}

// What went wrong in the runs of a build is said, and two holders at once end the command as they ended the run.
func TestCompare_runsWithFaults_noted(t *testing.T) {
	t.Chdir(t.TempDir())
	file := func(name, overlaps string) string {
		const one = `{"command":"contention","masters":5,"cells":[{"waiters":8,"clients":1,"overlaps":%s,"lost":2,"errors":1}]}` + "\n" +
			`{"command":"latency","masters":5,"cells":[{"callers":4,"errors":3,"floor":{"errors":4}}]}` + "\n" +
			`{"command":"outage","masters":5,"cells":[{"phase":"killed","errors":5}],"outage":{"failed":["a lock is never granted again"]}}` + "\n"
		must(t, os.WriteFile(name, fmt.Appendf(nil, one+one, overlaps, overlaps), 0o600))
		return name
	}
	good, faulty := runsFile(t, 1, 1), file("faulty", "0")
	for _, tc := range []struct {
		name, old, new string
		code           int
		says           []string
	}{
		{"none", good, good, exitOK, nil},
		{"without overlaps", faulty, faulty, exitOK, []string{
			"old: contention, 8 waiters of 1 client, held 0 ms: leases lost, whose holders outlived their validity: 4", "new: contention, 8 waiters of 1 client, held 0 ms: errors: 2",
			"old: latency, 4 callers: errors: 6", "old: latency, 4 callers, floor: errors: 8", "old: outage, killed: errors: 10", "new: outage: runs in which this did not hold: a lock is never granted again: 2",
		}},
		{"overlaps of the old", file("twice", "3"), faulty, exitViolation, []string{"old: contention, 8 waiters of 1 client, held 0 ms: VIOLATION: times that two holders had the lock at once: 6"}},
		{"overlaps of the new", faulty, "twice", exitViolation, []string{"new: contention, 8 waiters of 1 client, held 0 ms: VIOLATION"}},
		{"no cell in common", good, "twice", exitViolation, []string{"new: contention, 8 waiters of 1 client, held 0 ms: VIOLATION"}},
	} {
		code, stdout, stderr := bench(t, "compare", tc.old, tc.new)
		tidy(t, stdout)
		if code != tc.code || stderr != "" {
			t.Errorf("%s: exit code %d, want %d: %s", tc.name, code, tc.code, stderr)
		}
		said := strings.Join(strings.Fields(stdout), " ")
		for _, want := range tc.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in\n%s", tc.name, want, stdout)
			}
		}
		if strings.Contains(said, "errors") && tc.says == nil {
			t.Errorf("%s: %s", tc.name, stdout)
		}
	}
}

func TestCompare_badFiles_exit2(t *testing.T) {
	t.Chdir(t.TempDir())
	good, other, page := runsFile(t, 1, 1), "other.json", "page.html"
	must(t, os.WriteFile(page, []byte("<html>"), 0o600))
	must(t, os.WriteFile(other, []byte(`{"command":"outage","cells":[{"phase":"before"}]}`), 0o600))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"compare"}, "want two files, OLD and NEW, after the flags: there are 0"},
		{[]string{"compare", good}, "there are 1"},
		{[]string{"compare", good, good, good}, "there are 3"},
		{[]string{"compare", "--confidence", "1", good, good}, "--confidence 1: want 0.5 or more"},
		{[]string{"compare", "--confidence", "NaN", good, good}, "--confidence NaN: want 0.5 or more"},
		{[]string{"compare", good, "/no/such/file"}, "/no/such/file"},
		{[]string{"compare", good, page}, "page.html: result 1:"},
		{[]string{"compare", good, other}, "no cell in common"},
		{[]string{"compare", "/no/such/file", "/nor/this"}, "open /no/such/file: no such file or directory; open /nor/this: no such file or directory\n"},
	} {
		if code, _, stderr := bench(t, tc.args...); code != exitUsage || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: exit code %d, %q", tc.args, code, stderr)
		}
	}
}

// What cannot be written is named, and no run ends well that said nothing.
func TestRun_outputCannotBeWritten_saysSo(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	nobody, unread, err := os.Pipe()
	must(t, err)
	must(t, nobody.Close())
	defer unread.Close()
	t.Chdir(t.TempDir())
	good := runsFile(t, 2, 12_000)
	for _, args := range [][]string{{"--help"}, {"compare", "--help"}, {"compare", good, good}, {"chaos", "list"}, {"chaos", "--help"}} {
		var stderr strings.Builder
		code, want := run(t.Context(), args, full, &stderr), exitOutput
		if args[0] == "chaos" {
			want = exitMasters // one of its own: a file could not be written
		}
		if said := stderr.String(); code != want || !strings.Contains(said, "the output cannot be written: write /dev/full: no space left on device\n") || strings.Contains(said, "interrupted") {
			t.Errorf("%v: exit code %d, want %d: %q", args, code, want, said)
		}
		stderr.Reset()
		if code := run(t.Context(), args, unread, &stderr); code != exitUnread || stderr.Len() > 0 {
			t.Errorf("%v, unread: exit code %d, want %d: %q", args, code, exitUnread, &stderr)
		}
	}
}
