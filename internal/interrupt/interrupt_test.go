// SPDX-License-Identifier: Apache-2.0

package interrupt

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// programVar makes the test binary a program that a signal ends.
const programVar = "REDLOCK_INTERRUPT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVar) != "" {
		program()
	}
	os.Exit(m.Run())
}

// program says what it comes to. The time in which it ignores signals ends with a line of its stdin.
func program() {
	lines := bufio.NewScanner(os.Stdin)
	later = func(f func()) {
		lines.Scan()
		f()
		fmt.Println("half a second later")
	}
	seen := make(chan os.Signal, 3)
	signal.Notify(seen, syscall.SIGTERM, syscall.SIGINT)
	ctx, stop := Context(context.Background())
	fmt.Println("watches")
	<-ctx.Done()
	stop() // as a command that ends does
	fmt.Println("interrupted")
	for range cap(seen) {
		<-seen
	}
	signal.Stop(seen)
	fmt.Println("saw three signals")
	select {}
}

// As timeout(1) signals: its child, and a moment later the child's group.
func TestContext_secondSignal_ignoredAtFirstAndFatalLater(t *testing.T) {
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), programVar+"=1")
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	must(t, err)
	out, err := p.StdoutPipe()
	must(t, err)
	must(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("it said %q, want %q", lines.Text(), want)
		}
	}
	says("watches")
	must(t, p.Process.Signal(syscall.SIGTERM))
	says("interrupted")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		must(t, p.Process.Signal(sig))
	}
	says("saw three signals") // kill returns before a thread of the program has taken the signal
	_, err = in.Write([]byte("\n"))
	must(t, err)
	says("half a second later")
	must(t, p.Process.Signal(syscall.SIGTERM))
	_ = p.Wait()
	if end := p.ProcessState.Sys().(syscall.WaitStatus); end.Signal() != syscall.SIGTERM {
		t.Errorf("%v, want an end by SIGTERM", p.ProcessState)
	}
}

// A watch that was stopped before any signal ignores none.
func TestContext_stopped_ends(t *testing.T) {
	later = func(func()) { t.Error("a signal is ignored for half a second") }
	defer func() { later = afterGrace }()
	ctx, stop := Context(t.Context())
	stop()
	<-ctx.Done()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
