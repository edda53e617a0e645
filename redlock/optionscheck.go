// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/lock/hold"
)

// apply returns the defaults with opts applied. It fails if the result does not pass check.
func apply(opts []Option) (settings, error) {
	s := defaults()
	for _, o := range opts {
		if o == nil {
			return s, fmt.Errorf("%w: a nil option", ErrConfig)
		}
		o.applyClient(&s)
	}
	if !s.lock.ttlSet {
		s.lock.TTL = min(s.lock.TTL, s.maxTTL)
	}
	if s.lock.MinHold != 0 {
		return s, fmt.Errorf("%w: a minimum hold of %v as a client's default: not every lock can have one; give WithMinHold to Client.Mutex", ErrConfig, s.lock.MinHold)
	}
	return s, s.check()
}

// check returns an ErrConfig if a setting is out of range, or if two settings do not fit each
// other.
func (s *settings) check() error {
	switch {
	case s.clock == nil:
		return fmt.Errorf("%w: a nil clock; use clock.System()", ErrConfig)
	case s.nodeTimeout < time.Millisecond || s.nodeTimeout > longest:
		return fmt.Errorf("%w: node timeout %v: want %v to %v", ErrConfig, s.nodeTimeout, time.Millisecond, longest)
	case s.nodeCount < 0:
		return fmt.Errorf("%w: node count %d: want 1 or more", ErrConfig, s.nodeCount)
	}
	if s.namespaceSet {
		if err := checkNamespace(string(s.namespace)); err != nil {
			return err
		}
	}
	if err := checkOwner(s.owner); err != nil {
		return err
	}
	if s.maxTTL < minTTL || s.maxTTL > longest {
		return fmt.Errorf("%w: maximum TTL %v: want %v to %v", ErrConfig, s.maxTTL, minTTL, longest)
	}
	if err := s.drift.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s.checkLock(&s.lock)
}

// maxOwner bounds a label, in bytes.
const maxOwner = 128

// checkOwner says whether Redis takes the label as the name of a connection.
func checkOwner(label string) error {
	if len(label) > maxOwner {
		return fmt.Errorf("%w: client name of %d bytes: want %d or fewer", ErrConfig, len(label), maxOwner)
	}
	for _, r := range label {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("%w: client name %q has %q: want printable ASCII without spaces", ErrConfig, label, r)
		}
	}
	return nil
}

// checkLock is check for the settings of a lock. It compares them with each other and with the
// client's. Every message names the values that do not fit.
func (s *settings) checkLock(l *lockSettings) error {
	if l.TTL < minTTL || l.TTL > longest {
		return fmt.Errorf("%w: TTL %v: want %v to %v", ErrConfig, l.TTL, minTTL, longest)
	}
	if !s.noRecovery && l.TTL > s.maxTTL {
		return fmt.Errorf("%w: TTL %v is above the maximum TTL %v of these masters: shorten it, or raise WithMaxTTL (a change of epoch, docs/operations.md)", ErrConfig, l.TTL, s.maxTTL)
	}
	drift := s.drift.Of(l.TTL)
	if s.drift.Validity(l.TTL, 0) <= 0 {
		return fmt.Errorf("%w: drift %v leaves nothing of TTL %v: raise WithTTL, or lower WithDrift (a change of epoch, docs/operations.md)", ErrConfig, drift, l.TTL)
	}
	if l.MinValidity < 0 || s.drift.Validity(l.TTL, 0) <= l.MinValidity {
		return fmt.Errorf("%w: minimum validity %v: want 0 or more and less than TTL %v minus drift %v",
			ErrConfig, l.MinValidity, l.TTL, drift)
	}
	if l.patience < 0 || l.patience > longest {
		return fmt.Errorf("%w: outage timeout %v: want 0 to %v", ErrConfig, l.patience, longest)
	}
	if l.maxWait < 0 || l.maxWait > longest {
		return fmt.Errorf("%w: maximum wait %v: want 0 (until the context ends) to %v", ErrConfig, l.maxWait, longest)
	}
	if l.maxHold != 0 && l.maxHold < time.Millisecond {
		return fmt.Errorf("%w: maximum hold %v: want 0 (none) or %v or more", ErrConfig, l.maxHold, time.Millisecond)
	}
	if l.MinHold < 0 || l.MinHold > longest {
		return fmt.Errorf("%w: minimum hold %v: want 0 (none) to %v", ErrConfig, l.MinHold, longest)
	}
	if l.Fixed {
		return nil
	}
	every := l.every()
	if every < time.Millisecond || every >= l.TTL {
		return fmt.Errorf("%w: renewal every %v: want %v or more and less than TTL %v (a third of it is usual)",
			ErrConfig, every, time.Millisecond, l.TTL)
	}
	if useful := s.drift.Validity(l.TTL, 0) - hold.Margin(l.TTL); every >= useful {
		return fmt.Errorf("%w: renewal every %v comes too late: with TTL %v a lease lasts %v, which is the TTL minus drift %v and the time for the notice to its holder",
			ErrConfig, every, l.TTL, useful, drift)
	}
	return nil
}
