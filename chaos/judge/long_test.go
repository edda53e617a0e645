// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/needs"
)

// longHistory names the files of a history, for the process that judges them.
const longHistory = "REDLOCK_LONG_HISTORY"

// A history of any length is judged in the memory of a chapter. In a soak it has a million locks.
func TestJudge_longHistory_littleMemory(t *testing.T) {
	needs.Test(t)
	if pattern := os.Getenv(longHistory); pattern != "" {
		judgeLong(t, pattern)
		return
	}
	needs.NoRace(t, "measures the memory of a program")
	needs.Linux(t, "reads /proc")
	locks, most := 60_000, int64(200)
	if needs.InSoak(t) {
		locks, most = 1_000_000, 500
	}
	dir := t.TempDir()
	size := writeLong(t, dir, locks)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), longHistory+"="+filepath.Join(dir, "*.jsonl"), "GOGC=100") // the gate sets another
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// What getrusage says of a program begins with the memory of the one that started it, this one.
	_, peak, _ := strings.Cut(string(out), "VmHWM:")
	var used int64
	if _, err := fmt.Sscan(peak, &used); err != nil {
		t.Fatalf("the program did not say how much memory it took: %v: %s", err, out)
	}
	used /= 1024 // it says kB
	t.Logf("%d locks, %d MB on disk, judged in %d MB and %v of processor time", locks, size>>20, used, cmd.ProcessState.UserTime())
	if used > most {
		t.Errorf("took %d MB, want at most %d", used, most)
	}
}

func judgeLong(t *testing.T, pattern string) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	src, err := history.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	rs, tally, err := Run(t.Context(), src, Expect{X: true, T: true, Heal: time.Second, Timeout: time.Minute, Min: Minimums{Tokens: 1000, UnderFaults: 1000}}, ChapterOps)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		t.Logf("%s %s %s", r.ID, r.Verdict, r.Summary)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", status)
	if !Passed(rs) || tally.Acquisitions < 1000 {
		t.Errorf("%d locks, passed: %v", tally.Acquisitions, Passed(rs))
	}
}

// writeLong writes the history of a good run: 30 workers in three processes on 200 locks, a fault in each half second, and what a harness
// sees of five masters. It returns the length of the files.
func writeLong(t *testing.T, dir string, locks int) (size int64) {
	t.Helper()
	const workers, ms = 30, int64(time.Millisecond)
	header := history.Header{
		Seed: 1, Driver: "written by a test", Masters: 5, TTL: 600 * time.Millisecond, Replay: "go test ./chaos/judge -run longHistory",
		Promises: history.Promises{Exclusion: true, Tokens: true},
	}
	var done []func()
	open := func(name string) func(...history.Record) {
		f, err := os.Create(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		b := bufio.NewWriter(f)
		w, err := history.NewWriter(b, header)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, func() {
			if err := b.Flush(); err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat()
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			size += info.Size()
		})
		return func(rs ...history.Record) {
			for _, r := range rs {
				if err := w.Append(r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	clients := []func(...history.Record){open("c1"), open("c2"), open("c3")}
	harness := open("harness")
	at := int64(time.Hour)
	for i := range locks { // one grant after the other, 2 ms apart; each lasts for 1.5 ms
		at += 2 * ms
		lock, token := i%200, int64(i/200+1)
		op := history.Op{Client: fmt.Sprintf("c%d/%d", i%3+1, i%workers), Lock: fmt.Sprintf("lock-%d", lock), Holder: fmt.Sprintf("%032x", i), Outcome: history.OK}
		grant, before, unlock := op, op, op
		grant.Kind, grant.Mode, grant.Call, grant.Return, grant.Token = history.KindLock, history.Exclusive, at-20*ms, at, token
		grant.Deadline, grant.Voters = at+590*ms, "m1, m2, m3"
		write := history.Op{Kind: history.KindWrite, Client: op.Client, Lock: op.Lock, Fenced: true, Token: token, Value: token, Outcome: history.OK, Call: at + 1, Return: at + ms}
		before.Kind, before.Call, before.Return, before.Outcome = history.KindUnlock, at+3*ms/2, history.Never, history.Unknown
		unlock.Kind, unlock.Call, unlock.Return = history.KindUnlock, before.Call, before.Call+ms
		clients[i%3](grant, write, before, unlock)
		if i%250 == 0 {
			harness(history.Fault{Nemesis: history.Nemeses()[i/250%5], Start: at, End: at + 300*ms, Targets: []string{"m1"}})
		}
		if i%500 == 0 {
			for n := range 1000 {
				m := fmt.Sprintf("m%d", n/200+1)
				harness(history.Counter{Node: m, Incarnation: fmt.Sprintf("%040x.%d", n/200, i/5000), Slot: n % 200, Call: at, Return: at + ms, Value: token})
			}
		}
	}
	for lock := range 200 {
		harness(history.Op{Kind: history.KindProbe, Client: "harness", Lock: fmt.Sprintf("lock-%d", lock), Outcome: history.OK, Call: at + int64(time.Second) + int64(lock)*ms, Return: at + int64(time.Second) + int64(lock)*ms + 1})
	}
	for _, d := range done {
		d()
	}
	return size
}
