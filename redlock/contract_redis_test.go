// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/redlock/event"
)

// ways are the calls of a locker that take it.
func ways(name string, m redlock.Locker, ctx context.Context) map[string]error {
	run := func(context.Context, *redlock.Lease) error { return errors.New("fn ran") }
	return map[string]error{
		name + ".Lock": second(m.Lock(ctx)), name + ".TryLock": second(m.TryLock(ctx)),
		name + ".Do": m.Do(ctx, run), name + ".TryDo": done(m.TryDo(ctx, run)),
	}
}

// readWays are those of an RWMutex that Locker does not have.
func readWays(rw *redlock.RWMutex, ctx context.Context) map[string]error {
	run := func(context.Context, *redlock.Lease) error { return errors.New("fn ran") }
	return map[string]error{
		"RWMutex.RLock": second(rw.RLock(ctx)), "RWMutex.TryRLock": second(rw.TryRLock(ctx)),
		"RWMutex.RDo": rw.RDo(ctx, run), "RWMutex.TryRDo": done(rw.TryRDo(ctx, run)),
	}
}

// multiWays are the calls of a multilock that take it.
func multiWays(l *multilock.Lock, ctx context.Context) map[string]error {
	run := func(context.Context, *multilock.Lease) error { return errors.New("fn ran") }
	return map[string]error{
		"multilock.Lock": second(l.Lock(ctx)), "multilock.TryLock": second(l.TryLock(ctx)),
		"multilock.Do": l.Do(ctx, run), "multilock.TryDo": done(l.TryDo(ctx, run)),
	}
}

// leaseWays are the calls of a lease that return an error and take a context.
func leaseWays(l *redlock.Lease, ctx context.Context) map[string]error {
	bound, stop := l.Bind(ctx)
	defer stop()
	return map[string]error{"Lease.Extend": l.Extend(ctx), "Lease.Transfer": second(l.Transfer(ctx)), "Lease.Reenter": second(l.Reenter(ctx)), "Lease.Unlock": l.Unlock(ctx), "Lease.Bind": context.Cause(bound)}
}

func multiLeaseWays(l *multilock.Lease, ctx context.Context) map[string]error {
	bound, stop := l.Bind(ctx)
	defer stop()
	return map[string]error{"multilock.Lease.Extend": l.Extend(ctx), "multilock.Lease.Unlock": l.Unlock(ctx), "multilock.Lease.Bind": context.Cause(bound)}
}

// Every call with a nil context, a nil or zero value or a closed client returns the same error at
// once. No call panics or leaves anything behind.
func TestPublicAPI_nilZeroAndClosed_sameErrorEverywhere(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	var none context.Context
	all := func(want error, maps ...map[string]error) {
		t.Helper()
		for _, m := range maps {
			for name, err := range m {
				if !errors.Is(err, want) || strings.Contains(err.Error(), "fn ran") {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				for _, not := range []error{redlock.ErrHeld, redlock.ErrUnreachable, context.Canceled} {
					if errors.Is(err, not) {
						t.Errorf("%s: %v is %v", name, err, not)
					}
				}
			}
		}
	}
	ticket, err := locked(t, c.Mutex("handed-off")).Transfer(t.Context())
	noErr(t, err)
	everything := func(c *redlock.Client, ctx context.Context) []map[string]error {
		rw := c.RWMutex("rw")
		return []map[string]error{ways("Mutex", c.Mutex("free"), ctx), ways("RWMutex", rw, ctx), ways("Locker", rw.Locker(), ctx),
			ways("RLocker", rw.RLocker(), ctx), readWays(rw, ctx), {"Inspect": second(c.Inspect(ctx, "free")), "Adopt": second(c.Adopt(ctx, ticket)), "ForceUnlock": c.ForceUnlock(ctx, "free", "nobody"), "Locks": atEnd(c.Locks(ctx, "f")),
				"Every": done(c.Every("free", time.Second).Do(ctx, func(context.Context, *redlock.Lease) error { return errors.New("fn ran") }))}}
	}
	held := locked(t, c.Mutex("held"))
	members := multilock.New(c.Mutex("a"), c.RWMutex("b").RLocker())
	multi, err := members.Lock(t.Context())
	noErr(t, err)
	other := multilock.New(c.Mutex("free"))

	// A nil context.
	all(redlock.ErrConfig, everything(c, none)...)
	all(redlock.ErrConfig, multiWays(other, none), leaseWays(held, none), multiLeaseWays(multi, none), map[string]error{
		"Open": second(redlock.Open(none, ms.urls())), "New": second(redlock.New(none, nil)),
		"Shutdown": c.Shutdown(none),
		"Init":     admin.Init(none, list(ms.urls()), nil), "Reconfigure": admin.Reconfigure(none, list(ms.urls()), list(ms.urls()), nil),
		"CancelReconfigure": admin.Cancel(none, list(ms.urls())),
		"ReadStatus":        second(admin.ReadStatus(none, list(ms.urls()))), "AwaitVotes": second(admin.AwaitVotes(none, list(ms.urls()), nil)),
	})
	noErr(t, held.Err())
	noErr(t, multi.Err())
	if redlock.LeaseFrom(none) != nil || multilock.LeaseFrom(none) != nil {
		t.Error("a nil context has a lease")
	}

	// Nil functions, options, nodes and members.
	all(redlock.ErrConfig, map[string]error{
		"Do": c.Mutex("free").Do(t.Context(), nil), "TryDo": done(c.Mutex("free").TryDo(t.Context(), nil)),
		"multilock.Do": other.Do(t.Context(), nil), "multilock.TryDo": done(other.TryDo(t.Context(), nil)),
		"Open": second(redlock.Open(t.Context(), ms.urls(), nil)), "New": second(redlock.New(t.Context(), make([]node.Node, 3))),
		"no URLs": second(redlock.Open(t.Context(), nil)), "Mutex": second(c.Mutex("free", nil).TryLock(t.Context())),
		"WithClock": second(redlock.Open(t.Context(), ms.urls(), redlock.WithClock(nil))), "multilock.New": second(multilock.New(nil).TryLock(t.Context())),
		"Init": admin.Init(t.Context(), admin.List{}, nil), "Reconfigure": admin.Reconfigure(t.Context(), admin.List{}, admin.List{}, nil),
		"CancelReconfigure": admin.Cancel(t.Context(), admin.List{}),
		"ReadStatus":        second(admin.ReadStatus(t.Context(), admin.List{})), "AwaitVotes": second(admin.AwaitVotes(t.Context(), admin.List{}, nil)),
		"a List with a nil node": admin.Init(t.Context(), admin.List{Nodes: make([]node.Node, 3)}, nil),
	})
	noErr(t, second(admin.ReadStatus(t.Context(), list(ms.urls()))))

	// Nil and zero values.
	for _, zero := range []*redlock.Client{nil, {}} {
		all(redlock.ErrConfig, everything(zero, t.Context())...)
		all(redlock.ErrConfig, map[string]error{"multilock.New": second(multilock.New(zero.Mutex("free")).TryLock(t.Context()))})
		all(redlock.ErrConfig, map[string]error{"Ready": zero.Ready()})
		noErr(t, zero.Close())
		noErr(t, zero.Shutdown(t.Context()))
		if zero.Stats() != (event.Stats{}) {
			t.Errorf("stats %+v", zero.Stats())
		}
		metrics.New(metrics.Config{}).Observer().Opened(zero)
	}
	for _, m := range []*redlock.Mutex{nil, {}} {
		all(redlock.ErrConfig, ways("Mutex", m, t.Context()), ways("Mutex", m, none), map[string]error{"multilock.New": second(multilock.New(m).TryLock(t.Context())), "name": empty(m.Name())})
	}
	for _, rw := range []*redlock.RWMutex{nil, {}} {
		for name, m := range map[string]redlock.Locker{"RWMutex": rw, "Locker": rw.Locker(), "RLocker": rw.RLocker()} {
			all(redlock.ErrConfig, ways(name, m, t.Context()), map[string]error{"multilock.New": second(multilock.New(m).TryLock(t.Context())), "name": empty(m.Name())})
		}
		all(redlock.ErrConfig, readWays(rw, t.Context()), map[string]error{"name": empty(rw.Name())})
	}
	for _, l := range []*redlock.Lease{nil, {}} {
		all(redlock.ErrConfig, leaseWays(l, t.Context()), map[string]error{"Err": l.Err(), "Context": context.Cause(l.Context()), "name": empty(l.Name() + l.Holder())})
		if l.Token() != 0 || !l.ValidUntil().IsZero() {
			t.Errorf("token %d until %v", l.Token(), l.ValidUntil())
		}
	}
	for _, l := range []*multilock.Lock{nil, {}} {
		all(redlock.ErrConfig, multiWays(l, t.Context()), multiWays(l, none))
	}
	for _, l := range []*multilock.Lease{nil, {}} {
		all(redlock.ErrConfig, multiLeaseWays(l, t.Context()), map[string]error{"Err": l.Err(), "Context": context.Cause(l.Context())})
		if len(l.Members()) != 0 || !l.ValidUntil().IsZero() {
			t.Errorf("%d members until %v", len(l.Members()), l.ValidUntil())
		}
	}
	for _, s := range []string{(&redlock.RoundError{}).Error(), (&redlock.EpochError{}).Error(), admin.Standing(200).String(), fmt.Sprint((&redlock.RoundError{}).Unwrap())} {
		if s == "" || strings.Contains(s, "PANIC") {
			t.Errorf("%q", s)
		}
	}
	if errors.Is(&redlock.RoundError{}, redlock.ErrHeld) || redlock.WithDrift(clock.Drift{}) == nil {
		t.Error("a zero RoundError is an ErrHeld")
	}
	ms.wantNoKeys("free")

	// A closed client.
	noErr(t, c.Ready())
	noErr(t, c.Close())
	noErr(t, c.Close())
	noErr(t, c.Shutdown(t.Context()))
	all(redlock.ErrClosed, map[string]error{"Ready": c.Ready()})
	all(redlock.ErrClosed, everything(c, t.Context())...)
	all(redlock.ErrClosed, multiWays(other, t.Context()), leaseWays(held, t.Context()), multiLeaseWays(multi, t.Context()),
		map[string]error{"Lease.Err": held.Err(), "multilock.Lease.Err": multi.Err(), "Context": context.Cause(held.Context())})
	_ = c.Stats()
	ms.wantNoKeys("free")
}

// empty is an ErrConfig if s is empty.
func empty(s string) error {
	if s != "" {
		return fmt.Errorf("%q", s)
	}
	return redlock.ErrConfig
}

// atEnd is the error at the end of an iteration.
func atEnd(all iter.Seq2[*redlock.Inspection, error]) (err error) {
	for _, err = range all {
	}
	return err
}

// The table of the test above covers every method of these types. Add a new method to that table
// first, and then here.
func TestPublicAPI_tableIsWhole(t *testing.T) {
	for _, tc := range []struct {
		of   any
		want []string
	}{
		{&redlock.Client{}, []string{"Adopt", "Close", "Every", "ForceUnlock", "Inspect", "Locks", "Mutex", "RWMutex", "Ready", "Shutdown", "Stats"}},
		{&redlock.Every{}, []string{"Do", "Name"}},
		{&redlock.Mutex{}, []string{"Do", "Lock", "Name", "TryDo", "TryLock"}},
		{&redlock.RWMutex{}, []string{"Do", "Lock", "Locker", "Name", "RDo", "RLock", "RLocker", "TryDo", "TryLock", "TryRDo", "TryRLock"}},
		{&redlock.Lease{}, []string{"Bind", "Context", "Err", "Extend", "Holder", "Name", "Reenter", "Token", "Transfer", "Unlock", "ValidUntil"}},
		{&multilock.Lock{}, []string{"Do", "Lock", "TryDo", "TryLock"}},
		{&multilock.Lease{}, []string{"Bind", "Context", "Err", "Extend", "Members", "Name", "Token", "Unlock", "ValidUntil"}},
	} {
		var got []string
		typ := reflect.TypeOf(tc.of)
		for i := range typ.NumMethod() {
			got = append(got, typ.Method(i).Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v has the methods %q, the table %q", typ, got, tc.want)
		}
	}
}
