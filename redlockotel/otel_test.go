// SPDX-License-Identifier: Apache-2.0

package redlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/redlockotel"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a span in one line.
func line(s sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v", s.Name(), s.EndTime().Sub(s.StartTime()).Round(time.Second))
	for _, a := range s.Attributes() {
		if a.Key != redlockotel.FencingToken && a.Key != redlockotel.Validity && a.Key != redlockotel.Rounds {
			fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.Emit())
		}
	}
	return fmt.Sprintf("%s %s", b.String(), s.Status().Code)
}

func wantSpans(t *testing.T, r *tracetest.SpanRecorder, want ...string) {
	t.Helper()
	var got []string
	for _, s := range r.Ended() {
		got = append(got, line(s))
	}
	r.Reset()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestObserver_spans_ofACallersLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		_, masters := redlocktest.New(t)
		client := masters.Client(redlock.WithObserver(redlockotel.Observer(redlockotel.Config{TracerProvider: provider})))

		ctx, parent := provider.Tracer("test").Start(t.Context(), "work")
		if err := client.Mutex("a").Do(ctx, func(context.Context, *redlock.Lease) error { time.Sleep(time.Second); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, s := range recorder.Ended() {
			if s.Parent().SpanID() != parent.SpanContext().SpanID() || s.InstrumentationScope().SchemaURL == "" || s.InstrumentationScope().Name != redlockotel.ScopeName {
				t.Errorf("%s: parent %v, scope %+v", s.Name(), s.Parent(), s.InstrumentationScope())
			}
		}
		wantSpans(t, recorder,
			"redlock.lock 0s redlock.waited=false redlock.lock.name=a redlock.lock.mode=mutex redlock.result=granted Unset",
			"redlock.unlock 0s redlock.lock.name=a redlock.lock.mode=mutex redlock.result=released Unset")

		held := masters.Hold("a")
		if _, err := client.Mutex("a").TryLock(ctx); !errors.Is(err, redlock.ErrHeld) {
			t.Error(err)
		}
		if _, err := client.RWMutex("b").TryRLock(ctx); err != nil {
			t.Error(err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			_ = held.Unlock(t.Context())
		}()
		lease, err := client.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		masters.Lose("a")
		<-lease.Context().Done()
		_ = lease.Unlock(ctx)
		wantSpans(t, recorder,
			"redlock.lock 0s redlock.waited=false redlock.lock.name=a redlock.lock.mode=mutex redlock.result=held Unset",
			"redlock.lock 0s redlock.waited=false redlock.lock.name=b redlock.lock.mode=read redlock.result=granted Unset",
			"redlock.lock 3s redlock.waited=true redlock.lock.name=a redlock.lock.mode=mutex redlock.result=granted Unset",
			"redlock.unlock 0s redlock.lock.name=a redlock.lock.mode=mutex redlock.result=lost error.type=lost Error")
	})
}

func TestConfig_lockName_canBeLeftOut(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	o := redlockotel.Observer(redlockotel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)),
		LockName:       func(string) string { return "" },
	})
	o.Unlocked(t.Context(), event.Unlock{Lock: "secret", Mode: "mutex"})
	wantSpans(t, recorder, "redlock.unlock 0s redlock.lock.mode=mutex redlock.result=released Unset")
	recorder.Reset()
	o.Unlocked(t.Context(), event.Unlock{Lock: "secret", Mode: "mutex", Err: fmt.Errorf("%w: %q", redlock.ErrLost, "secret")})
	if said := recorder.Ended()[0].Status().Description; said != "lost" {
		t.Errorf("the status says %q", said)
	}
}

// Every error that the library documents has a result, and only what is wrong is an Error.
func TestObserver_errors_haveTheirResult(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	o := redlockotel.Observer(redlockotel.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	for err, want := range map[error]string{
		redlock.ErrHeld: "held Unset", redlock.ErrUnreachable: "unreachable Error", redlock.ErrRecovering: "recovering Error",
		redlock.ErrRefused: "refused Error", redlock.ErrLost: "lost Error", redlock.ErrUnconfirmed: "unconfirmed Error",
		redlock.ErrClosed: "closed Error", context.Canceled: "gave_up Unset", errors.New("else"): "_OTHER Error",
	} {
		o.Acquired(t.Context(), event.Acquire{Lock: "x", Mode: "mutex", Err: fmt.Errorf("it is so: %w", err)})
		s := recorder.Ended()[0]
		recorder.Reset()
		if got := line(s); !strings.Contains(got, "redlock.result="+strings.Fields(want)[0]) || !strings.HasSuffix(got, strings.Fields(want)[1]) {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
		if (s.Status().Code == codes.Error) != (s.Status().Description != "") {
			t.Errorf("%v: %+v", err, s.Status())
		}
	}
}

func ExampleObserver() {
	recorder := tracetest.NewSpanRecorder() // a program has an exporter
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	observer := redlockotel.Observer(redlockotel.Config{TracerProvider: provider})
	// redlock.Open(ctx, urls, redlock.WithObserver(observer)) calls it:
	observer.Acquired(context.Background(), event.Acquire{Lock: "invoice/4711", Mode: "mutex", Took: time.Second, Rounds: 1, Waited: true, Token: 1})
	for _, s := range recorder.Ended() {
		fmt.Println(line(s))
	}

	// Output:
	// redlock.lock 1s redlock.waited=true redlock.lock.name=invoice/4711 redlock.lock.mode=mutex redlock.result=granted Unset
}
