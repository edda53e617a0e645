// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/redlock"
)

// misfitLock is the lock that clients with wrong settings try to take.
const misfitLock = "misconfigured"

// misconfigured opens a client whose settings differ from those of the other clients, tries to lock, and records what came of it. See
// nemesis.Target.
func (r *run) misconfigured(ctx context.Context, rnd *rand.Rand) error {
	good, opts := r.fitting()
	var what string
	bad := good
	switch rnd.IntN(3) {
	case 0:
		what, bad = "other masters", good[:len(good)-2]
		opts = append(opts, redlock.WithNodeCount(len(bad)))
	case 1:
		what, bad = "one master twice", append(append([]string{}, good[:len(good)-1]...), strings.Replace(good[0], "name=m1", "name=other", 1))
	case 2:
		what = "another maximum TTL"
		opts = append(opts, redlock.WithMaxTTL(r.cfg.MaxTTL+time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	op := history.Op{
		Kind: history.KindMisfit, Client: fmt.Sprintf("harness.misfit%d", r.misfits.Add(1)), Lock: r.cfg.Prefix + misfitLock, Call: history.Now(),
		Outcome: history.Failed, Error: what,
	}
	err := lockOnce(ctx, bad, r.cfg.Prefix+misfitLock, opts)
	op.Return = history.Now()
	// A master that is down or in quarantine cannot refuse the settings yet. Then nothing was shown.
	shown := err == nil || !errors.Is(err, redlock.ErrUnreachable) && !errors.Is(err, redlock.ErrRecovering) && ctx.Err() == nil
	switch {
	case err == nil:
		op.Outcome = history.OK
	case !shown:
		op.Outcome = history.Unknown
	}
	if err := r.history.Append(op); err != nil {
		return err
	}
	if !shown {
		return fmt.Errorf("no quorum could refuse %s: %w", what, err)
	}
	return nil
}

// fitting are the masters and the settings of the run. Its clients have no label, which would stay on the masters of others for a minute.
func (r *run) fitting() (masters []string, opts []redlock.Option) {
	return urls(r.target.Spare[0], r.cluster.Masters()), []redlock.Option{redlock.WithTTL(r.cfg.TTL), redlock.WithMaxTTL(r.cfg.MaxTTL),
		redlock.WithFixedMasters(), redlock.WithClientName("")}
}

// opened opens a client of the run's settings, and closes it. See nemesis.Target. Masters that are down are no fault of theirs.
func (r *run) opened(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	masters, opts := r.fitting()
	c, err := redlock.Open(ctx, masters, opts...)
	if errors.Is(err, redlock.ErrConfig) || errors.Is(err, redlock.ErrRefused) {
		return fmt.Errorf("a new client is not opened: %w", err)
	}
	_ = c.Close()
	return nil
}

// lockOnce opens a client, takes a lock and releases it.
func lockOnce(ctx context.Context, masters []string, lock string, opts []redlock.Option) error {
	c, err := redlock.Open(ctx, masters, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := c.Mutex(lock).TryLock(ctx)
	if err == nil {
		_ = l.Unlock(ctx)
	}
	return err
}
