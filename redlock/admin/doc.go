// SPDX-License-Identifier: Apache-2.0

// Package admin is for operators: it lets the masters of a list begin to vote, changes the list, and says what the masters are in. A program
// that only locks does not need it. The command redlock does the same from a shell (docs/operations.md).
//
//	err := admin.Init(ctx, admin.List{URLs: urls}, nil)
//
// A list is named with the options of its clients, because maximum TTL and drift are part of what all of them must agree on. All functions
// may be called from any goroutine, and by several processes at once. They return when they are done, and leave no goroutine behind.
package admin

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/redlock"
)

var errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)

// settings are those of the options.
func settings(opts []redlock.Option) (masters.Settings, error) {
	return redlock.Engine(engine.Key{}).Settings(opts)
}
