// SPDX-License-Identifier: Apache-2.0

// Package redlockotel makes OpenTelemetry spans of what a redlock client does for its callers.
//
//	client, err := redlock.Open(ctx, urls, redlock.WithObserver(redlockotel.Observer(redlockotel.Config{})))
//
// It is a module of its own, so that programs without OpenTelemetry do not need it.
//
// # Spans
//
// "redlock.lock" is one call for a lock, from the call to its end: the time in it is the wait.
// "redlock.unlock" is the Unlock of a grant's last lease. Both are children of the span in the
// caller's context, and of kind internal: a lock is many requests to many masters.
//
// Attributes are those of the semantic conventions where there is one, as error.type. The others
// begin with "redlock.". The name of the lock is one of them: leave it out with [Config] if names are
// secret. A span has the status Error when the call failed, with the error, or with the word of
// redlock.result where [Config] has a LockName: the error names the lock. A TryLock that finds the lock held has
// not failed: redlock.result says "held". The same goes for a caller that gave up.
package redlockotel

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// ScopeName is the instrumentation scope of the spans.
const ScopeName = "github.com/redlock-go/redlock/redlockotel"

// Attributes that are not in the semantic conventions.
const (
	LockName     = attribute.Key("redlock.lock.name")
	LockMode     = attribute.Key("redlock.lock.mode") // "mutex", "read" or "write"
	Result       = attribute.Key("redlock.result")    // of a lock "granted", of an unlock "released"; else as error.type
	Rounds       = attribute.Key("redlock.rounds")    // over all masters
	Waited       = attribute.Key("redlock.waited")    // the lock was not free at once
	FencingToken = attribute.Key("redlock.fencing_token")
	Validity     = attribute.Key("redlock.validity") // seconds that were left when the lock was granted
)

// Config says how spans are made. The zero Config is fine.
type Config struct {
	// TracerProvider makes the tracer. Default: otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// LockName returns what the attribute redlock.lock.name says of the lock called name, or "" to
	// leave it out. Default: nil, the name itself.
	LockName func(name string) string

	_ struct{}
}

// Observer returns what a client is to be opened with, by redlock.WithObserver. Several clients
// may have the same.
func Observer(cfg Config) *event.Observer {
	provider := cfg.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	s := &spans{cfg: cfg, tracer: provider.Tracer(ScopeName, trace.WithSchemaURL(semconv.SchemaURL))}
	return &event.Observer{Acquired: s.acquired, Unlocked: s.unlocked}
}

type spans struct {
	cfg    Config
	tracer trace.Tracer
}

func (s *spans) acquired(ctx context.Context, e event.Acquire) {
	attrs := []attribute.KeyValue{Rounds.Int(e.Rounds), Waited.Bool(e.Waited)}
	if e.Err == nil {
		attrs = append(attrs, FencingToken.Int64(e.Token), Validity.Float64(e.Validity.Seconds()))
	}
	s.span(ctx, "redlock.lock", e.Lock, e.Mode, "granted", e.Took, e.Err, attrs)
}

func (s *spans) unlocked(ctx context.Context, e event.Unlock) {
	s.span(ctx, "redlock.unlock", e.Lock, e.Mode, "released", e.Took, e.Err, []attribute.KeyValue{FencingToken.Int64(e.Token)})
}

// span makes a span that took so long and ends now.
func (s *spans) span(ctx context.Context, span, lock, mode, well string, took time.Duration, err error, attrs []attribute.KeyValue) {
	end := time.Now()
	_, sp := s.tracer.Start(ctx, span, trace.WithTimestamp(end.Add(-took)), trace.WithSpanKind(trace.SpanKindInternal))
	defer sp.End(trace.WithTimestamp(end))
	if !sp.IsRecording() {
		return
	}
	name := strings.ToValidUTF8(lock, "?")
	if s.cfg.LockName != nil {
		name = s.cfg.LockName(lock)
	}
	if name != "" {
		attrs = append(attrs, LockName.String(name))
	}
	result, failed := resultOf(err, well)
	sp.SetAttributes(append(attrs, LockMode.String(mode), Result.String(result))...)
	if failed {
		sp.SetAttributes(semconv.ErrorTypeKey.String(result))
		said := result
		if s.cfg.LockName == nil { // the error names the lock
			said = err.Error()
		}
		sp.SetStatus(codes.Error, said)
	}
}

// resultOf is err in one word, and whether it is a failure. well is the word for no error.
func resultOf(err error, well string) (result string, failed bool) {
	switch {
	case err == nil:
		return well, false
	case errors.Is(err, redlock.ErrHeld):
		return "held", false
	case errors.Is(err, redlock.ErrUnreachable):
		return "unreachable", true
	case errors.Is(err, redlock.ErrRecovering):
		return "recovering", true
	case errors.Is(err, redlock.ErrRefused):
		return "refused", true
	case errors.Is(err, redlock.ErrLost):
		return "lost", true
	case errors.Is(err, redlock.ErrUnconfirmed):
		return "unconfirmed", true
	case errors.Is(err, redlock.ErrClosed):
		return "closed", true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "gave_up", false
	}
	return semconv.ErrorTypeOther.Value.AsString(), true
}
