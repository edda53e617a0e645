// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
)

func TestRun_badCommandLine_messageAndExit2(t *testing.T) {
	t.Chdir(t.TempDir()) // some of them name files
	for _, tc := range []struct {
		args string
		want string // in the message
	}{
		{"latencyx", `no command "latencyx"`},
		{"latency --foo", "-foo"},
		{"--foo", "redlock-bench tour --help"},
		{"latency 5", `words that are no flags: 1; this command takes flags only`},
		{"redis://:topsecret@x:1", `no command "redis://***@x:1"`},
		{"latency --nodes redis://:topsecret@x:1, redis://:topsecret@y:1", "words that are no flags: 1"},
		{"latency --masters redis://:topsecret@x:1", "redis://***@x:1"},
		{"latency --hurt redis://:topsecret@x:1", "redis://***@x:1"},
		{"latency --json redis://:topsecret@x:1", "--json: open redis://***@x:1"},
		{"latency --html redis://:topsecret@x:1", "--html: open redis://***@x:1"},
		{"latency --callers 0", "1 to 4096"},
		{"latency --callers 1,,2", "1 to 4096"},
		{"latency --callers 5000", "1 to 4096"},
		{"latency --callers x", "1 to 4096"},
		{"latency --hurt badly", `--hurt "badly": want stop or kill`},
		{"latency --hurt stop --nodes redis://127.0.0.1:1", "not ours to stop"},
		{"latency --hurt stop --masters 2", "want 3 or more"},
		{"contention --waiters -1", "1 to 4096"},
		{"contention --clients 0", "--clients 0: want 1 to 64"},
		{"contention --clients 65", "--clients 65"},
		{"contention --processes -1", "--processes -1: want 1 to 256"},
		{"contention --processes 2 --clients 2", "give --clients or --processes"},
		{"contention --readers 9", "--readers 9: want 0 to the smallest of --waiters, 8"},
		{"contention --hold -1ms", "--hold -1ms"},
		{"contention --hold 4s", "--hold 4s: want 0 to the --duration, 3s"},
		{"latency --masters 0", "--masters 0: want 1 to 15"},
		{"latency --masters 16", "--masters 16"},
		{"latency --ttl 9ms", "--ttl 9ms: want 10ms or more"},
		{"latency --ttl soon", "soon"},
		{"latency --ttl 8761h", "--ttl 8761h0m0s: want 8760h0m0s or less"},
		{"latency --nodes redis://127.0.0.1:1" + strings.Repeat(",redis://127.0.0.1:1", 63), "--nodes: 64 masters: want 63 or fewer"},
		{"latency --duration 1ms", "--duration 1ms"},
		{"latency --duration -1s", "--duration -1s"},
		{"latency --nodes redis://127.0.0.1:1 --masters 3", "give one of them"},
		{"latency --nodes nowhere", "no URL"},
		{"latency --nodes redis://127.0.0.1:1,", "no URL"},
		{"latency --nodes redis-sentinel://127.0.0.1:1/m", "name the master itself"},
		{"latency --nodes redis-cluster://a,b/?tag=x", "measure on plain masters"},
		{"latency --nodes redis://:topsecret@x:y", "***@x:y"},
		{"latency --max-ttl 1m", "--max-ttl is for the masters of --nodes"},
		{"latency --max-ttl 1ms --nodes redis://127.0.0.1:1", "--max-ttl 1ms: want 10ms to 8760h0m0s"},
		{"latency --max-ttl 2s --ttl 3s --nodes redis://127.0.0.1:1", "--ttl 3s: want the --max-ttl of these masters, 2s, or less"},
		{"latency --json /no/such/directory/file", "/no/such/directory/file"},
		{"latency --html /no/such/directory/file", "--html: open /no/such/directory/file"},
		{"latency --html -", "--html: want a file"},
		{"latency --nodes redis://127.0.0.1:1 --json x --html ./x", "--html: ./x is the file of --json"},
		{"outage --nodes redis://127.0.0.1:1", "-nodes"},
		{"outage --callers 0", "--callers 0: want 1 to 4096"},
		{"outage --masters 2", "--masters 2: want 3 or more"},
		{"outage --ttl 3s", "--max-ttl 2s: want the --ttl, 3s, or more"},
		{"outage --max-ttl 8761h", "--max-ttl 8761h0m0s: want 8760h0m0s or less"},
		{"outage --duration 2s", "--duration 2s: want more than the --ttl, 2s"},
		{"outage --frozen 1ms", "--frozen 1ms: want 250ms or more"},
		{"doctor --nodes redis://:topsecret@x:y", "operators use redlock"},
		{"outage --persistence sometimes", `--persistence "sometimes": want none, everysec or always`},
	} {
		code, stdout, stderr := bench(t, strings.Fields(tc.args)...)
		if code != exitUsage || stdout != "" {
			t.Errorf("%s: exit code %d, stdout %q; want %d and nothing", tc.args, code, stdout, exitUsage)
		}
		if !strings.Contains(stderr, tc.want) || !strings.HasPrefix(stderr, "redlock-bench: ") || strings.Contains(stderr, "topsecret") {
			t.Errorf("%s: stderr %q, want %q", tc.args, stderr, tc.want)
		}
	}
}

func TestParse_goodCommandLine_values(t *testing.T) {
	l := &latency{}
	must(t, parseArgs(l, "--callers 2,4 --masters 3 --ttl 1s --duration 20ms"))
	if !slices.Equal(l.callers, counts{2, 4}) || l.masters != 3 || l.ttl != time.Second || l.duration != 20*time.Millisecond {
		t.Errorf("%+v", l)
	}
	c := &contention{}
	must(t, parseArgs(c, "--hold 0s --clients 2 --waiters=3 --nodes redis://127.0.0.1:1,unix:///tmp/s"))
	if !slices.Equal(c.waiters, counts{3}) || c.clients != 2 || c.hold != 0 || !slices.Equal(c.nodes, masterurl.URLs{"redis://127.0.0.1:1", "unix:///tmp/s"}) {
		t.Errorf("%+v", c)
	}
}

func TestParse_noFlags_defaults(t *testing.T) {
	l, c := &latency{}, &contention{}
	must(t, parseArgs(l, ""))
	must(t, parseArgs(c, ""))
	if !slices.Equal(l.callers, counts{1, 16, 64}) || l.masters != 5 || l.ttl != 10*time.Second || l.duration != 3*time.Second {
		t.Errorf("%+v", l)
	}
	o := &outage{}
	must(t, parseArgs(o, ""))
	if o.callers != 64 || o.masters != 5 || o.ttl != 2*time.Second || o.maxTTL != 2*time.Second || o.duration != 10*time.Second || o.strict {
		t.Errorf("%+v", o)
	}
	if !slices.Equal(c.waiters, counts{8, 64}) || c.clients != 4 || c.hold != time.Millisecond {
		t.Errorf("%+v", c)
	}
}

func parseArgs(cmd command, args string) error {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	cmd.define(fs)
	return parse(cmd, fs, strings.Fields(args))
}

func TestRun_help_stdoutAndExit0(t *testing.T) {
	overview := func(args ...string) string {
		code, stdout, stderr := bench(t, args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
		tidy(t, stdout)
		return stdout
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}} {
		if text := overview(args...); !strings.Contains(text, "130 interrupted") {
			t.Errorf("%v: %s", args, text)
		}
	}
	for _, e := range commands() {
		if text := overview("help"); !strings.Contains(text, "  "+e.name) || !strings.Contains(text, e.summary) {
			t.Errorf("%s is not in the overview", e.name)
		}
		if e.name == "chaos" {
			continue // its help is chaoscli's
		}
		if text := overview(e.name, "--help"); !strings.Contains(text, e.help) ||
			!strings.Contains(text, "--nodes") && !strings.Contains(text, "--masters") && !strings.Contains(text, "--from") && !strings.Contains(text, "--confidence") {
			t.Errorf("%s --help: %s", e.name, text)
		}
	}
}

func TestRun_chaos_itsOwnCommandLine(t *testing.T) {
	code, stdout, _ := bench(t, "chaos", "list")
	if code != exitOK || !strings.Contains(stdout, "kill-minority ") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	if code, _, stderr := bench(t, "chaos", "--frob"); code != exitUsage || !strings.HasPrefix(stderr, "redlock-bench chaos: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
