// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/hook"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/redlock/event"
)

func init() {
	hook.TryAll = tryAll
	hook.Settings = mastersOf
	hook.Key = func(l Locker) string {
		m := l.core()
		return m.c.epoch.masters + "\x00" + m.l.Key
	}
	hook.Check = func(l Locker) error { return l.core().check() }
	hook.Rand = func(c *Client) uint64 { return c.rand64() }
	hook.WithRand = withRand
	hook.ForOrder = func(every time.Duration) LockOption { return lockOption(func(s *lockSettings) { s.forOrder = every }) }
	hook.Voters = voterNames
	hook.Announce = announce
	hook.Retract = retract
	hook.Observe = observe
	hook.Jitter = (*Client).jitter
	hook.Abandon = (*Lease).abandon
	hook.LogPanic = func(c event.Client, what string, p any) (logged bool) {
		own, ok := c.(*Client)
		return ok && own.logPanic(what, p)
	}
	hook.Serving = func(c *Client) context.Context { return c.serving }
	hook.Namespace = func(c *Client) string { return string(c.namespace) }
}

// mastersOf is hook.Settings.
func mastersOf(opts []Option) (masters.Settings, error) {
	s, err := apply(opts)
	if err != nil {
		return masters.Settings{}, err
	}
	return *s.ofMasters(), nil
}

// voterNames is hook.Voters.
func voterNames(l *Lease) (names []string) {
	votes, _, _ := l.hold().Voters()
	for i, n := range l.c.masters.Nodes {
		if votes>>i&1 == 1 {
			names = append(names, n.Name())
		}
	}
	return names
}

func withRand(next func() uint64) Option {
	return clientOption(func(s *settings) { s.node.Rand = next })
}
