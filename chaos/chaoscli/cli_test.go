// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
)

func TestMain(m *testing.M) {
	chaos.Serve() // this binary is also the clients' and the reaper's
	logging.Disable()
	_ = os.Unsetenv(chaos.EvidenceVar) // runs fail here on purpose
	goleak.VerifyTestMain(m)
}

// cli runs a command line and returns what came of it.
func cli(t testing.TB, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	code = Run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// holds runs chaos, in which every promise must hold. On a machine that was held up it runs again, as in package chaos, but not after two holders
// or a token that was wrong.
func holds(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stall.Try(t, 200*time.Millisecond, func(try testing.TB) {
		code, out, errs := cli(try, try.Context(), args...)
		if code != exitHeld {
			try.Errorf("exit code %d: %s%s", code, out, errs)
			if regexp.MustCompile(`(exclusion|tokens)[":]`).MatchString(out) {
				t.Errorf("no stall excuses it: %s", out)
			}
		}
		stdout, stderr = out, errs
	})
	return stdout, stderr
}

func TestRun_badCommandLine_isUsageAndNamesTheRemedy(t *testing.T) {
	for line, want := range map[string]string{
		"frob":                                                             "want one of run, failover, check, list",
		"check --history h.jsonl":                                          "--history h.jsonl is a file to write: name the history that is to be judged without a flag",
		"run more":                                                         "flags only",
		"--frob":                                                           "--help",
		"--driver vm":                                                      "docker, process or sim",
		"--driver sim --persistence none":                                  "does not apply",
		"--driver sim --workload hot":                                      "does not apply",
		"--driver sim --image redis:7":                                     "does not apply",
		"--driver sim --servers /bin/true":                                 "does not apply",
		"--driver docker --servers /bin/true":                              "--driver process",
		"--driver process --image redis:7":                                 "--image redis:7: only --driver docker runs an image",
		"--servers /bin/true --image redis:7":                              "--image redis:7: only --driver docker runs an image",
		"failover --driver process --image redis:7":                        "--image redis:7: only --driver docker runs an image",
		"--servers /bin/true,/nonexistent/x":                               "--servers /nonexistent/x: want programs that can be executed",
		"--driver sim --nemesis cut-power":                                 "the simulation has kill-minority",
		"failover --driver sim":                                            "docker or process",
		"--nemesis rolling-upgrade":                                        "--other",
		"--other /nonexistent":                                             "go build -o",
		"--client /nonexistent":                                            "docs/history.md",
		"--client /bin/true --workload hot":                                "does not apply",
		"--client /bin/true --nemesis misconfigure":                        "clients of this library",
		"--driver sim --client /bin/true":                                  "does not apply",
		"--lock redsync":                                                   "chaos/peers",
		"--nodes redis://a:1,redis://b:1":                                  "odd number from 3",
		"--nodes redis://a:1,redis://b:1,c":                                "redis://host:port",
		"--nodes redis://a:1,redis://b:1,rediss://c:1":                     "cannot read TLS",
		"--nodes redis://a:1,redis://b:1,redis://c:1 --masters 3":          "does not apply",
		"--nodes redis://a:1,redis://b:1,redis://c:1 --nemesis flush-data": "the masters are yours",
		"--nodes redis://a:1,redis://b:1,redis://c:1 --nemesis administer": "--allow administer",
		"--nodes redis://a:1,redis://b:1,redis://c:1 --allow flush-data":   "administer, delete-lock",
		"--nodes redis://a:1,redis://b:1,redis://c:1 --allow delete-lock":  "--allow delete-lock: no nemesis of this run does that",
		"--allow administer":                                               "--nodes",
		"--driver sim --nodes redis://a:1":                                 "does not apply",
		"--driver sim --mutant no-debt":                                    "mutant",
		"--mutant no-such":                                                 "mutant",
		"--nemesis meteor":                                                 "chaos list",
		"--nemesis kill-minority,kill-minority":                            "twice",
		"--nemesis suspend-client":                                         "--driver sim",
		"--nemesis cut-power":                                              "--persistence everysec",
		"--nemesis restore-copy --persistence always":                      "none or everysec",
		"--workload tepid":                                                 "hot, cold",
		"--persistence sometimes":                                          "none, everysec or always",
		"--masters 4":                                                      "odd",
		"--clients 1":                                                      "2 to 20",
		"--duration 1ms":                                                   "a second or more",
		"--duration soon":                                                  "invalid",
		"--driver sim --max-ttl 8762h":                                     "chaos: --max-ttl 8762h0m0s: want 8760h0m0s or less",
		"--ttl 40s --max-ttl 50s":                                          "chaos: --ttl 40s: want 30s or less",
		"--max-ttl 61s":                                                    "chaos: --max-ttl 1m1s: want 1m0s or less",
		"--seed seven":                                                     "invalid",
		"--html -":                                                         "--json",
		"--html /nonexistent/x.html":                                       "no such file",
		"--html x --json x":                                                "want a file of its own",
		"failover --driver vm":                                             "docker, process",
		"check":                                                            "name the files",
		"check /nonexistent/history":                                       "no such file",
		"--ttl 2s":                                                         "--ttl 2s, --max-ttl 1s: want a maximum that is not less",
		"check --heal -1s /nonexistent/history":                            "chaos: --heal -1s: want a time above 0",
		"check --timeout 0 /nonexistent/history":                           "chaos: --timeout 0s: want a time above 0",
	} {
		t.Run(line, func(t *testing.T) {
			code, _, stderr := cli(t, t.Context(), strings.Fields(line)...)
			if code != exitUsage || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, want %d with %q in: %s", code, exitUsage, want, stderr)
			}
		})
	}
}

// A URL may stand in any place of a command line that is wrong.
func TestRun_urlInTheWrongPlace_noPassword(t *testing.T) {
	const url = "redis://:topsecret@a:1"
	for _, args := range [][]string{{url}, {"run", url}, {"--masters", url}, {"--driver", url}, {"--=" + url}, {"--nodes", url + ",", url}} {
		if code, _, stderr := cli(t, t.Context(), args...); code != exitUsage || strings.Contains(stderr, "topsecret") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

func TestRun_noServer_cannotRun(t *testing.T) {
	t.Setenv("PATH", "")
	code, _, stderr := cli(t, t.Context(), "--driver", "process")
	if code != exitNothing || !strings.Contains(stderr, "apt-get install") {
		t.Errorf("exit code %d, want %d and the remedy: %s", code, exitNothing, stderr)
	}
}

func TestRun_noEngine_cannotRun(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	for line, want := range map[string]string{
		"--driver docker":          "dockerd",
		"failover --driver docker": "dockerd",
	} {
		if code, _, stderr := cli(t, t.Context(), strings.Fields(line)...); code != exitNothing || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want %d and the remedy: %s", line, code, exitNothing, stderr)
		}
	}
}

func TestRun_noImage_cannotRun(t *testing.T) {
	needs.Docker(t)
	code, _, stderr := cli(t, t.Context(), "--driver", "docker", "--image", "127.0.0.1:1/nobody:nothing")
	if code != exitNothing || !strings.Contains(stderr, "docker pull") {
		t.Errorf("exit code %d, want %d and the remedy: %s", code, exitNothing, stderr)
	}
}

func TestRun_interrupted_cannotSay(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	code, _, stderr := cli(t, ctx, "--driver", "process", "--masters", "3", "--duration", "1m")
	if code != exitNothing || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit code %d, want %d: %s", code, exitNothing, stderr)
	}
}

func TestList_namesAll(t *testing.T) {
	code, out, _ := cli(t, t.Context(), "list")
	for _, want := range []string{"kill-minority ", "three-at-once ", "delete-lock", "hot", "effort", "--driver sim", "needs --other"} {
		if code != exitHeld || !strings.Contains(out, want) {
			t.Errorf("exit code %d, and no %q in: %s", code, want, out)
		}
	}
}

// A short run writes what it was asked for, and its history can be judged again.
func TestRun_files_areWrittenAndJudgedAlike(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	out, _ := holds(t, "--driver", "process", "--masters", "3", "--clients", "2", "--duration", "4s", "--seed", "7",
		"--nemesis", "reorder", "--workload", "hot,cold", "--html", at("r.html"), "--history", at("h.jsonl"), "--json", "-")
	var res map[string]any
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, field := range []string{"seed", "driver", "duration_s", "acquisitions", "faults", "violations", "availability", "recovery_ms", "nemeses", "versions"} {
		if _, ok := res[field]; !ok {
			t.Errorf("no %q in %s", field, out)
		}
	}
	if page := read(t, at("r.html")); !bytes.Contains(page, []byte("</html>")) {
		t.Error("the report is no page")
	}
	for name, file := range map[string]string{"report": "r.html", "history": "h.jsonl"} {
		for _, what := range []string{"redis", "redlock", "go1."} {
			if !bytes.Contains(read(t, at(file)), []byte(what)) {
				t.Errorf("no version of %s in the %s", what, name)
			}
		}
	}
	code, out, stderr := cli(t, t.Context(), "check", at("h.jsonl"))
	if code != exitHeld || !strings.Contains(out, "exclusion         ok ") {
		t.Errorf("judged again: exit code %d: %s%s", code, out, stderr)
	}
	// The same history with a lie in it: the second grant is made to come during the first.
	code, _, _ = cli(t, t.Context(), "check", lie(t, at("h.jsonl")))
	if code != exitViolation {
		t.Errorf("a history with an overlap: exit code %d, want %d", code, exitViolation)
	}
}

// A seed of the simulation gives the same history to the byte, and what it prints repeats it.
func TestRun_sim_repeatsByThePrintedCommand(t *testing.T) {
	needs.NoRace(t, "the race detector's scheduler picks goroutines at random: a seed does not repeat")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	args := strings.Fields("--driver sim --seed 3 --duration 10s --clients 4 --nemesis suspend-client,partition,wipe-minority --json - --html " + at("a.html") + " --history " + at("a"))
	code, out, stderr := cli(t, t.Context(), args...)
	var res chaos.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil || code != exitHeld {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	if res.Driver != "sim" || res.Acquisitions < 30 || res.Nemeses["suspend-client"].Faults == 0 || len(res.Violations) > 0 {
		t.Errorf("result %s", out)
	}
	_, again, ok := strings.Cut(stderr, "again: redlock-bench chaos ")
	if !ok {
		t.Fatalf("no command to repeat it in %s", stderr)
	}
	again, _, _ = strings.Cut(again, "\n")
	if !replay.Same(t, read(t, at("a")), func() []byte {
		if code, _, stderr := cli(t, t.Context(), append(strings.Fields(again), "--history", at("b"))...); code != exitHeld {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return read(t, at("b"))
	}) {
		t.Error("five runs of one seed have five histories")
	}
}

func TestRun_simInterrupted_cannotSay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr := cli(t, ctx, "--driver", "sim", "--duration", "1h")
	if code != exitNothing || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit code %d, want %d: %s", code, exitNothing, stderr)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is no history, or not all of one, or more than one, is not judged as if it were.
func TestCheck_otherFiles_saysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	const good = "../judge/testdata/effort_ok_enough.jsonl"
	whole, err := filepath.Abs(good)
	if err != nil {
		t.Fatal(err)
	}
	b := read(t, whole)
	header, rest, _ := bytes.Cut(b, []byte("\n"))
	write := func(name string, parts ...[]byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Join(parts, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nl := []byte("\n")
	for _, test := range []struct {
		files []string
		code  int
		want  string
	}{
		{[]string{write("empty")}, exitUsage, "no history"},
		{[]string{write("page", []byte("<!DOCTYPE html>\n"))}, exitUsage, "no history"},
		{[]string{write("json", []byte("{\"name\":\"x\"}\n"))}, exitUsage, "no history"},
		{[]string{write("binary", []byte{0x7f, 'E', 'L', 'F', '\n', 0})}, exitUsage, "no history"},
		{[]string{write("headless", rest)}, exitUsage, "no history"},
		{[]string{dir}, exitUsage, "is a directory"},
		{[]string{write("edited", header, nl, []byte("{\"foo\":1}\n"), rest)}, exitUsage, ":2: json: unknown field \"foo\": the file was changed"},
		{[]string{write("word", header, nl, bytes.Replace(rest, []byte(`"ok"`), []byte(`"fine"`), 1))}, exitUsage, "no such outcome"},
		{[]string{write("torn", b, []byte(`{"op":{"kind":"lo`))}, exitViolation, "the last line is cut off"}, // healed: nobody probed
		{[]string{whole, write("other", bytes.Replace(b, []byte(`"seed":`), []byte(`"seed":9`), 1))}, exitUsage, "files of two runs"},
		{[]string{whole, whole}, exitUsage, "are one file"},
		{[]string{whole, "--html", "page.html"}, exitUsage, "flags go before the files: redlock-bench chaos check [--flag value ...] HISTORY..."},
	} {
		code, _, stderr := cli(t, t.Context(), append([]string{"check"}, test.files...)...)
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, want %d with %q in: %s", filepath.Base(test.files[0]), code, test.code, test.want, stderr)
		}
	}
}

// twoClaims is a history with two claims that overlap, and deleteLock a fault that may break exclusion: from when until when it lasts.
const (
	twoClaims = `{"header":{"started":"2026-11-21T03:00:00Z","seed":1,"driver":"by hand","masters":5,"ttl":1000,"replay":"none","idle":["fenced-register","counters"],"promises":{"exclusion":true,"tokens":true}}}
{"op":{"kind":"lock","client":"a","call":3010,"return":3020,"lock":"L","mode":"exclusive","holder":"a1","token":1,"deadline":3900,"outcome":"ok"}}
{"op":{"kind":"lock","client":"b","call":3030,"return":3499,"lock":"L","mode":"exclusive","holder":"b1","token":2,"deadline":4399,"outcome":"ok"}}
{"op":{"kind":"lock","client":"a","call":9000,"return":9001,"lock":"L","mode":"exclusive","holder":"a2","token":3,"deadline":9900,"outcome":"ok"}}
{"op":{"kind":"probe","client":"p","call":9950,"return":9990,"lock":"L","outcome":"ok"}}
`
	deleteLock = `{"fault":{"nemesis":"delete-lock","start":%d,"end":%d,"may_break":{"exclusion":true,"tokens":false}}}
`
)

// What chaos check says of two claims that overlap depends on whether a fault that may break exclusion can matter when they do.
func TestCheck_overlap_judgedByTheInstant(t *testing.T) {
	for name, test := range map[string]struct {
		start, end int
		code       int
		want       string
	}{
		"the fault lasts":            {3100, 3200, exitHeld, "overlaps in that time: 1"},
		"the fault can still matter": {2000, 2950, exitHeld, "overlaps in that time: 1"},
		"it can matter no longer":    {2000, 2800, exitViolation, "a1 and b1 both claim"},
		"it was not there yet":       {3500, 3600, exitViolation, "a1 and b1 both claim"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h")
			if err := os.WriteFile(path, fmt.Appendf(nil, twoClaims+deleteLock, test.start, test.end), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, stderr := cli(t, t.Context(), "check", path)
			if code != test.code || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want %d with %q in: %s%s", code, test.code, test.want, out, stderr)
			}
		})
	}
}

// A history cannot say that the checkers of the lock itself have nothing to judge, and what the others found counts whatever it says.
func TestCheck_idle_switchesNoJudgeOff(t *testing.T) {
	const h = `{"header":{"started":"2026-11-21T03:00:00Z","seed":1,"driver":"by hand","masters":5,"ttl":1000,"replay":"none","idle":["fenced-register","counters"%s],"promises":{"exclusion":true,"tokens":true}}}
{"op":{"kind":"lock","client":"a","call":3010,"return":3020,"lock":"L","mode":"exclusive","holder":"a1","token":1,"deadline":%d,"outcome":"ok"}}
{"op":{"kind":"lock","client":"b","call":3030,"return":3499,"lock":"L","mode":"exclusive","holder":"b1","token":%d,"deadline":4399,"outcome":"ok"}}
{"op":{"kind":"lock","client":"a","call":9000,"return":9001,"lock":"L","mode":"exclusive","holder":"a2","token":3,"deadline":9900,"outcome":"ok"}}
{"op":{"kind":"probe","client":"p","call":9950,"return":9990,"lock":"L","outcome":"ok"}}
`
	const apart, overlapping = 3400, 3900
	for name, test := range map[string]struct {
		idle            string
		deadline, token int
		code            int
		want            string
	}{
		"nothing wrong":      {"", apart, 2, exitHeld, "held"},
		"overlap":            {`,"exclusion","linearizable"`, overlapping, 2, exitUsage, `:1: header: idle names "exclusion", which judges every run: leave it out`},
		"harness":            {`,"harness"`, apart, 2, exitUsage, `"harness", which judges every run`},
		"assumptions":        {`,"assumptions"`, apart, 2, exitUsage, `"assumptions", which judges every run`},
		"no such checker":    {`,"tokenz"`, apart, 2, exitUsage, `idle names "tokenz", which is no checker: want some of tokens, fenced-register,`},
		"a token that falls": {`,"tokens"`, apart, 1, exitViolation, "token 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h")
			if err := os.WriteFile(path, fmt.Appendf(nil, h, test.idle, test.deadline, test.token), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, stderr := cli(t, t.Context(), "check", path)
			if code != test.code || !strings.Contains(out+stderr, test.want) {
				t.Errorf("exit code %d, want %d with %q in: %s%s", code, test.code, test.want, out, stderr)
			}
		})
	}
}

// A recovery of 0 is none: a lock was never granted again, or there were no faults.
func TestSummary_recovery_saidIfThereWasOne(t *testing.T) {
	for recovery, want := range map[float64]string{
		0:    "availability  locks were granted in 50.0 % of the half seconds under faults\n",
		1200: "availability  locks were granted in 50.0 % of the half seconds under faults; after the last, each was granted within 1200 ms\n",
	} {
		var out bytes.Buffer
		(&console{out: &out}).summary(&chaos.Result{Availability: 0.5, Recovery: recovery})
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// What was not measured is no 0, which would be the best of all.
func TestSummary_nothingWrittenAndNoGrant_noFigures(t *testing.T) {
	var out bytes.Buffer
	res := &chaos.Result{Driver: "process", Nemeses: map[string]chaos.Impact{"partition": {Faults: 1, Lasted: 2}}}
	(&console{out: &out}).summary(res)
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"registers", "0 ms", "_lost", "recovery_ms", "recovery_max_ms", "masters_back_ms"} {
		if strings.Contains(out.String(), not) || bytes.Contains(b, []byte(not)) {
			t.Errorf("%q in\n%s%s", not, &out, b)
		}
	}
	some := 0.25
	for want, res := range map[string]*chaos.Result{
		"registers     updates lost: 25.0 % without fencing tokens, as is to be expected\n":                             {Unfenced: &some},
		"registers     updates lost: 25.0 % with fencing tokens\n":                                                      {Fenced: &some},
		"registers     updates lost: 25.0 % without fencing tokens, as is to be expected; 25.0 % with fencing tokens\n": {Unfenced: &some, Fenced: &some},
	} {
		out.Reset()
		if (&console{out: &out}).summary(res); !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// What a failed run leaves is in one folder, and its name is printed.
func TestKeep_failedRun_oneFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	res := &chaos.Result{Seed: 5, Violations: []chaos.Violation{{Checker: "harness", Detail: "client c1 ended"}}}
	h := &history.History{Header: history.Header{Seed: 5, Masters: 3, TTL: time.Second}}
	logs := map[string][]byte{"n1": []byte("Ready"), "c1": []byte("panic"), "../../n2": []byte("out")}
	for _, dir := range []string{"chaos-failed-5", "chaos-failed-5-2", "chaos-failed-5-3"} { // the same seed again, with other evidence
		var stderr bytes.Buffer
		err := keep(&console{out: io.Discard, err: &stderr}, 5, chaos.Outcome{Result: res, History: history.Whole(h), Logs: logs})
		if err != nil || !strings.Contains(stderr.String(), "evidence: "+dir+" ") || strings.Contains(stderr.String(), "logs") != (len(logs) > 0) {
			t.Errorf("error %v, and printed: %s", err, stderr.String())
		}
		logs = nil // as of a simulation
	}
	for file, want := range map[string]string{
		"report.html": "</html>", "history.jsonl": `"seed":5`, "result.json": "client c1 ended", "n1.log": "Ready", "c1.log": "panic", "n2.log": "out",
	} {
		if b := read(t, filepath.Join("chaos-failed-5", file)); !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %q in %s: %s", want, file, b)
		}
	}
}

// The printed command gives the same Config as the command line that printed it.
func TestReplay_everyFlag_sameConfig(t *testing.T) {
	parse := func(line string) (*runFlags, chaos.Config) {
		f, _ := flagsOf(t, line)
		cfg, err := f.config()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return f, cfg
	}
	for _, line := range []string{
		"--seed 7",
		"--driver process --seed 7 --masters 3 --clients 4 --nemesis reorder,partition --workload hot --persistence everysec --duration 9s " +
			"--at-once 3 --ttl 400ms --max-ttl 700ms --least-faults 100 --least-locks 10000",
		"--driver sim --seed 7 --nemesis partition --max-ttl 2h",
		"--seed 7 --ttl 30s --max-ttl 1m",
	} {
		f, want := parse(line)
		again := strings.TrimPrefix(f.replay(want.Driver, want.Seed), "redlock-bench chaos ")
		_, got := parse(again)
		if fmt.Sprintf("%+v", plain(got)) != fmt.Sprintf("%+v", plain(want)) {
			t.Errorf("%s\nprinted %s\nwhich is %+v\nwant     %+v", line, again, plain(got), plain(want))
		}
	}
}

// flagsOf parses the flags of run.
func flagsOf(t *testing.T, line string) (*runFlags, *flag.FlagSet) {
	t.Helper()
	f, fs := &runFlags{}, flag.NewFlagSet("run", flag.ContinueOnError)
	f.bind(fs)
	if err := fs.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	return f, fs
}

// plain is cfg with names in the place of nemeses, whose functions have addresses.
func plain(cfg chaos.Config) any {
	var names []string
	for _, n := range cfg.Nemeses {
		names = append(names, n.Name)
	}
	cfg.Nemeses = nil
	return struct {
		chaos.Config
		Names []string
	}{cfg, names}
}

// lie copies a history without its unlocks, so that claims last until their deadlines.
func lie(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []byte
	for line := range bytes.Lines(b) {
		if !bytes.Contains(line, []byte(`"kind":"unlock"`)) && !bytes.HasPrefix(line, []byte(`{"end"`)) {
			kept = append(kept, bytes.Replace(line, []byte(`,"whole":true}`), []byte("}"), 1)...) // else it is cut off
		}
	}
	if err := os.WriteFile(path+".lie", kept, 0o600); err != nil {
		t.Fatal(err)
	}
	return path + ".lie"
}
