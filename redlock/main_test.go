// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/redlock"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // go-redis logs every dial that fails
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // the heap of a simulation is small and its garbage is much
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // they wait for servers and for leases to end most of the time; make test says the same
	goleak.VerifyTestMain(m)
}

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// work is what runs under a lock.
type work = func(context.Context, *redlock.Lease) error

// lockWithin is Lock with a maximum wait.
var lockWithin = inside.LockFor

// done is the error of a TryDo or an Every, with ErrHeld if it did not run because another has the lock.
func done(ran bool, err error) error {
	if !ran && err == nil {
		return redlock.ErrHeld
	}
	return err
}

// tried is try with the error of done.
func tried(try func(context.Context, work) (bool, error)) func(context.Context, work) error {
	return func(ctx context.Context, fn work) error { return done(try(ctx, fn)) }
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
