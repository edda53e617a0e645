// SPDX-License-Identifier: Apache-2.0

package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// These are a user's tests, one for each difficulty. docs/testing.md shows them.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settle is the code under test. One process at a time settles an invoice.
func settle(ctx context.Context, client *redlock.Client, invoice int, pay func(ctx context.Context) error) error {
	return client.Mutex(fmt.Sprint("invoice/", invoice)).Do(ctx, func(ctx context.Context, _ *redlock.Lease) error { return pay(ctx) })
}

// report is the code under test. One process makes the report, and the others skip it.
func report(ctx context.Context, client *redlock.Client, write func(ctx context.Context) error) error {
	_, err := client.Mutex("report").TryDo(ctx, func(ctx context.Context, _ *redlock.Lease) error { return write(ctx) })
	return err
}

// paid is work that is done at once.
func paid(ctx context.Context) error { return ctx.Err() }

// untilEnd is work that lasts until its context ends.
func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// The code of the package's comment does what it says.
func TestPackage_codeOfTheComment_isHeld(t *testing.T) {
	client, masters := redlocktest.New(t)
	masters.Hold("report")
	if _, err := client.Mutex("report").TryLock(t.Context()); !errors.Is(err, redlock.ErrHeld) {
		t.Errorf("got %v, want ErrHeld", err)
	}
	source, err := os.ReadFile("redlocktest.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "//\t_, err := client.Mutex(\"report\").TryLock(ctx)") {
		t.Error("the comment has other code")
	}
}

func TestUser_report_heldElsewhere_skipped(t *testing.T) {
	client, masters := redlocktest.New(t)
	masters.Hold("report") // by another process
	err := report(t.Context(), client, func(context.Context) error {
		return errors.New("two processes make the report")
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUser_settle_heldElsewhere_waits(t *testing.T) {
	client, masters := redlocktest.New(t)
	held := masters.Hold("invoice/4711")
	settled := make(chan error, 1)
	go func() { settled <- settle(t.Context(), client, 4711, paid) }()

	masters.AwaitWaiter("invoice/4711")
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
}

func TestUser_settle_leaseLost_stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		settled := make(chan error, 1)
		go func() { settled <- settle(t.Context(), client, 4711, untilEnd) }()

		masters.Lose("invoice/4711")
		if err := <-settled; !errors.Is(err, redlock.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
	})
}

func TestUser_settle_mastersRefuse_fails(t *testing.T) {
	client, masters := redlocktest.New(t)
	masters.Refuse()
	if err := settle(t.Context(), client, 4711, paid); !errors.Is(err, redlock.ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
	masters.Heal()
	if err := settle(t.Context(), client, 4711, paid); err != nil {
		t.Error(err)
	}
}

func TestUser_settle_outage_gaveUpAfterItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		masters.Outage(1) // a minority
		if err := settle(t.Context(), client, 4711, paid); err != nil {
			t.Error(err)
		}
		masters.Outage(redlocktest.All)
		if err := settle(t.Context(), client, 4711, paid); !errors.Is(err, redlock.ErrUnreachable) {
			t.Errorf("got %v, want ErrUnreachable", err)
		}
		masters.Heal()
		if err := settle(t.Context(), client, 4711, paid); err != nil {
			t.Error(err)
		}
	})
}

func TestUser_settle_mastersRecover_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		masters.Restart(2)
		if _, err := client.Mutex("invoice/4711").TryLock(t.Context()); !errors.Is(err, redlock.ErrRecovering) {
			t.Errorf("got %v, want ErrRecovering", err)
		}
		start := time.Now()
		if err := settle(t.Context(), client, 4711, paid); err != nil {
			t.Error(err)
		}
		t.Logf("settled after %v", time.Since(start)) // about 30 s, which take no time
	})
}

func TestUser_settle_otherProcessDied_waitsForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		other := masters.Client(redlock.WithTTL(20 * time.Second)) // another process
		if _, err := other.Mutex("invoice/4711").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // its lease is renewed
		other.Close()           // and not given back
		start := time.Now()
		if err := settle(t.Context(), client, 4711, paid); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited < 10*time.Second || waited > 21*time.Second {
			t.Errorf("settled after %v", waited)
		}
	})
}

var (
	block    = regexp.MustCompile("(?s)```go\n(.*?)```")
	wordTest = regexp.MustCompile("`(TestUser_[A-Za-z_]+)`")
	helper   = regexp.MustCompile(`(?m)^func ([a-z]\w*)\(`)
)

// Every test in docs/testing.md is one of these, and what it calls is on the page too.
func TestPage_code_isThatOfTheTests(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("user_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks, code := block.FindAllSubmatch(page, -1), ""
	for _, b := range blocks {
		code += string(b[1])
		if !strings.Contains(string(tests), string(b[1])) {
			t.Errorf("not in user_test.go:\n%s", b[1])
		}
	}
	for _, m := range helper.FindAllSubmatch(tests, -1) {
		name := string(m[1])
		if regexp.MustCompile(`\b`+name+`\b`).MatchString(code) && !strings.Contains(code, "func "+name+"(") {
			t.Errorf("the page has no %s, which its tests call", name)
		}
	}
	for _, name := range wordTest.FindAllSubmatch(page, -1) {
		if !strings.Contains(string(tests), "func "+string(name[1])+"(") {
			t.Errorf("no test called %s", name[1])
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks of code on the page", len(blocks))
	}
}
