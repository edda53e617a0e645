// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
)

const tourHelp = `Runs latency and contention briefly on the same masters. See their own --help
for what the figures mean and for more flags.
`

// tour is what runs when no command is named: a little of everything.
type tour struct{ setup }

func (t *tour) define(fs *flag.FlagSet) { t.setup.define(fs, time.Second) }

func (t *tour) run(ctx context.Context, o output) error {
	return t.setup.measure(ctx, o, "tour", func(ctx context.Context, b *masters.Backend, r *report) error {
		l := &latency{setup: t.setup, callers: counts{1, 16, 64}}
		if err := l.cells(ctx, b, r); err != nil {
			return err
		}
		r.line("")
		c := &contention{setup: t.setup, waiters: counts{8, 64}, clients: 4, hold: min(time.Millisecond, t.duration)}
		return c.cells(ctx, b, r)
	})
}
