// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// masters starts n empty masters for the test's time.
func masters(t testing.TB, n int) []string {
	t.Helper()
	needs.Redis(t)
	servers, err := localredis.StartN(t.Context(), n, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, s := range servers {
		t.Cleanup(func() { s.Close() })
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// client is what a test looks at a master with.
func client(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually polls until ok, for 10 s at most.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

func plain(name string) Lock { return Lock{Kind: Plain, Names: []string{name}} }

// skipRecorder is a testing.TB that keeps what it was skipped with.
type skipRecorder struct {
	testing.TB
	skipped string
}

func (r *skipRecorder) Skip(args ...any) {
	r.skipped = fmt.Sprint(args...)
	runtime.Goexit() // as the real one does
}

func TestNeed_emptyPath_skipsAndSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv(needs.TierVar, needs.TierCI.String())
	t.Setenv(needs.RequireVar, "")
	r := &skipRecorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Need(r, Config{Masters: []string{"127.0.0.1:1"}})
	}()
	<-done
	if !strings.Contains(r.skipped, "no java in PATH") || !strings.Contains(r.skipped, install) {
		t.Errorf("skipped with %q", r.skipped)
	}
}

// onlyTools makes a PATH with just these tools of the real one.
func onlyTools(t *testing.T, tools ...string) {
	dir := t.TempDir()
	for _, tool := range tools {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestStart_neverBuiltAndToolMissing_namesIt(t *testing.T) {
	needs.Java(t)
	for missing, have := range map[string][]string{"mvn": {"java", "javac"}, "javac": {"java", "mvn"}} {
		t.Run(missing, func(t *testing.T) {
			onlyTools(t, have...)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			_, err := Start(t.Context(), Config{Masters: []string{"127.0.0.1:1"}})
			if !errors.Is(err, ErrNoJava) || !strings.Contains(err.Error(), missing+" is missing") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestStart_builtBefore_needsJavaAlone(t *testing.T) {
	needs.Java(t)
	addrs := masters(t, 1)
	Need(t, Config{Masters: addrs}).Close()
	onlyTools(t, "java")
	p, err := Start(t.Context(), Config{Masters: addrs})
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}

func TestStart_sourcesThatDoNotCompile_errorShowsMavensOutput(t *testing.T) {
	needs.Java(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte("<nonsense/>"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := maven(t.Context(), dir)
	if err == nil || errors.Is(err, ErrNoJava) || !strings.Contains(err.Error(), "pom.xml") {
		t.Errorf("error %v", err)
	}
}

func TestStart_addressJavaRefuses_javasErrorAndNoProcessLeft(t *testing.T) {
	needs.Java(t)
	_, err := Start(t.Context(), Config{Masters: []string{"no port"}})
	if java := (*JavaError)(nil); !errors.As(err, &java) {
		t.Errorf("error %v", err)
	}
	// goleak sees to the rest: the goroutine that waits for the process ends with it.
}

func TestLockFile_held_waitsUntilFreeOrTheContextsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second lock: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, unlock)
	again, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestHash_otherContent_otherName(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(a, "x"), []byte("1"), 0o644)
	os.WriteFile(filepath.Join(b, "x"), []byte("2"), 0o644)
	ha, _ := hash(os.DirFS(a))
	hb, _ := hash(os.DirFS(b))
	if ha == hb || len(ha) != 16 {
		t.Errorf("%s, %s", ha, hb)
	}
}

func TestMonotonic_check_refusesAClockThatIsOff(t *testing.T) {
	m, err := readMonotonic()
	if err != nil {
		t.Fatal(err)
	}
	if m.gap > 100*time.Microsecond {
		t.Errorf("the pair is %v apart", m.gap)
	}
	sent := time.Now()
	received := sent.Add(5 * time.Millisecond)
	if err := m.check(sent, sent.Add(time.Millisecond), sent.Add(2*time.Millisecond), received); err != nil {
		t.Errorf("a good clock: %v", err)
	}
	for name, began := range map[string]time.Duration{"early": -time.Millisecond, "late": 5 * time.Millisecond} {
		if m.check(sent, sent.Add(began), sent.Add(began+time.Millisecond), received) == nil {
			t.Errorf("a clock that is %s passes", name)
		}
	}
	if m.check(sent, sent.Add(2*time.Millisecond), sent.Add(time.Millisecond), received) == nil {
		t.Error("a clock that goes backwards passes")
	}
}

// Java's instants compare with ours: every call of many lies within our own bounds of it.
func TestDo_manyCalls_eachWithinItsSendAndReceive(t *testing.T) {
	needs.Java(t)
	h := Need(t, Config{Masters: masters(t, 1)}).Handle("s", plain("L"))
	shortest := time.Hour
	for range 200 {
		sent := time.Now()
		reply, err := h.Lock(t.Context(), time.Second)
		received := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		if err := h.peer.clock.check(sent, reply.Began, reply.Ended, received); err != nil {
			t.Fatal(err)
		}
		shortest = min(shortest, received.Sub(sent))
	}
	t.Logf("the tightest bounds were %v", shortest)
}

func TestHandle_ownerIsTheSession(t *testing.T) {
	needs.Java(t)
	ctx := t.Context()
	p := Need(t, Config{Masters: masters(t, 1)})
	a, b := p.Handle("a", plain("a name & more=ü")), p.Handle("b", plain("a name & more=ü"))

	for range 2 { // again: reentrant
		if _, err := a.Lock(ctx, 20*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if held, _, err := b.TryLock(ctx, 0, 0); held || err != nil {
		t.Errorf("b's tryLock: %v, %v", held, err)
	}
	_, err := b.Unlock(ctx)
	if java := (*JavaError)(nil); !errors.As(err, &java) || java.Class != "java.lang.IllegalMonitorStateException" {
		t.Errorf("b's unlock: %v", err)
	}
	if _, err := a.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if locked, err := b.IsLocked(ctx); !locked || err != nil {
		t.Errorf("after the first of two unlocks: locked %v, %v", locked, err)
	}
	if left, err := b.Remaining(ctx); left <= 15*time.Second || left > 20*time.Second || err != nil {
		t.Errorf("remaining %v, %v", left, err)
	}
	if forced, err := b.ForceUnlock(ctx); !forced || err != nil {
		t.Errorf("force: %v, %v", forced, err)
	}
	if left, err := b.Remaining(ctx); left != -2*time.Millisecond || err != nil {
		t.Errorf("remaining of a free lock: %v, %v", left, err)
	}
}

func TestDo_nonsense_javaErrorAndPeerGoesOn(t *testing.T) {
	needs.Java(t)
	p := Need(t, Config{Masters: masters(t, 1)})
	for name, r := range map[string]Request{
		"op":         {Op: "x", Session: "s", Lock: plain("L")},
		"kind":       {Op: "lock", Session: "s", Lock: Lock{Kind: "x", Names: []string{"L"}}},
		"master":     {Op: "lock", Session: "s", Lock: Lock{Kind: Plain, Names: []string{"L"}, Master: 1}},
		"no session": {Op: "lock", Lock: plain("L")},
		"isLocked":   {Op: "isLocked", Lock: Lock{Kind: Red, Names: []string{"L"}}},
	} {
		_, err := p.Do(t.Context(), r)
		if java := (*JavaError)(nil); !errors.As(err, &java) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Handle("s", plain("L")).Lock(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
}

func TestDo_contextEnds_callerGoesJavaWaitsOn(t *testing.T) {
	needs.Java(t)
	p := Need(t, Config{Masters: masters(t, 1)})
	holder, waiter := p.Handle("holder", plain("L")), p.Handle("waiter", plain("L"))
	if _, err := holder.Lock(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := waiter.Lock(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if locked, err := waiter.IsLocked(soon); !locked || err != nil { // its thread is in lock()
		t.Errorf("asked through a busy session: %v, %v", locked, err)
	}
	if _, err := holder.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := waiter.Unlock(t.Context()); err != nil { // served after the abandoned Lock, which got it
		t.Error(err)
	}
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestClose_lockHeldAndCallUnderWay_processGoneLockStays(t *testing.T) {
	needs.Java(t)
	addrs := masters(t, 1)
	p := Need(t, Config{Masters: addrs})
	held, waiter := p.Handle("a", plain("L")), p.Handle("b", plain("L"))
	if _, err := held.Lock(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := waiter.Lock(t.Context(), time.Minute)
		waiting <- err
	}()
	master := client(t, addrs[0])
	eventually(t, "b waits", func() bool {
		n, _ := master.PubSubNumSub(t.Context(), "redisson_lock__channel:{L}").Result()
		return n["redisson_lock__channel:{L}"] == 1
	})

	p.Close()
	if !gone(p.cmd.Process.Pid) {
		t.Error("the process is still there")
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("call under way: %v", err)
	}
	if _, err := held.Unlock(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("later call: %v", err)
	}
	if n := master.HLen(t.Context(), "L").Val(); n != 1 {
		t.Errorf("%d fields in the lock's hash", n)
	}
	p.Close() // again
}

func TestPeer_processKilled_callsFailAndSayHow(t *testing.T) {
	needs.Java(t)
	p := Need(t, Config{Masters: masters(t, 1)})
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	_, err := p.Handle("s", plain("L")).Lock(t.Context(), time.Second)
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v", err)
	}
}

// The driver's death ends the peer: its stdin ends with it.
func TestPeer_stdinEnds_processEnds(t *testing.T) {
	needs.Java(t)
	p := Need(t, Config{Masters: masters(t, 1)})
	p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		t.Error("still running")
	}
}

func TestPeer_replyThatMakesNoSense_refused(t *testing.T) {
	p := &Peer{calls: map[uint64]*call{}}
	for _, line := range []string{"", "warning: x", "id=1&%zz", "id=x"} {
		if err := p.deliver(line); err == nil {
			t.Errorf("%q is fine", line)
		}
	}
	for _, line := range []string{"id=1&value=true&began=1", "id=1&from=1&to=x"} {
		p.calls[1] = &call{done: make(chan struct{})}
		if err := p.deliver(line); err == nil {
			t.Errorf("%q is fine", line)
		}
	}
}

func TestScenes_embedded_all(t *testing.T) {
	scenes, err := Scenes()
	if err != nil || len(scenes) != 23 {
		t.Errorf("%d scenes, %v", len(scenes), err)
	}
}
