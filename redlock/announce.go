// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lock/inspect"
)

// announce is hook.Announce.
func announce(ctx context.Context, l *Lease, since time.Time, value string) (again time.Duration) {
	again, lives := inspect.Again(l.h.ls.ttl)
	if l.Err() == nil {
		l.h.announce(ctx, since, value, lives)
	}
	return again
}

func (h *hold) announce(ctx context.Context, since time.Time, value string, lives time.Duration) {
	h.c.asker.Announce(ctx, &inspect.Announcement{Lock: h.l, Holder: h.holder, Token: h.token, Since: since, Value: value}, lives)
}

// retract is hook.Retract.
func retract(l *Lease) { l.h.c.asker.Retract(l.h.l, l.h.holder, l.h.ls.ttl) }

// observe is hook.Observe.
func observe(c *Client, name string) (changed <-chan struct{}, stop func()) {
	return c.watchers.Watch(name)
}
