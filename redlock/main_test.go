// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/redlock"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // go-redis logs every dial that fails
	goleak.VerifyTestMain(m)
}

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
