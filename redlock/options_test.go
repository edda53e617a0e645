// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/hold"
	"github.com/redlock-go/redlock/internal/membership"
)

// Any options either give settings that work, or an error whose text names a value that was given.
func FuzzOptions(f *testing.F) {
	const s = int64(time.Second)
	f.Add("lock", 5, uint8(0), 10*s, 3*s, int64(0), int64(0), 30*s, s/10, 0.01, s/500, 5)
	f.Add("lock", 5, uint8(0xff), 10*s, 3*s, 5*s, s, 30*s, s/10, 0.01, s/500, 5)
	f.Add("lock", 4, uint8(0xff), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64),
		int64(math.MaxInt64), int64(math.MaxInt64), math.Nextafter(1, 0), int64(math.MaxInt64), 4)
	f.Add("redlock:node", 0, uint8(0x55), int64(math.MinInt64), -s, -s, -s, -s, -s, math.NaN(), int64(math.MinInt64), -1)
	f.Fuzz(func(t *testing.T, name string, masters int, set uint8, ttl, every, maxHold, minValidity, maxTTL, nodeTimeout int64,
		factor float64, constant int64, nodeCount int) {
		drift := clock.Drift{Factor: factor, Constant: time.Duration(constant)}
		lockOptions := []LockOption{WithRenewal(time.Duration(every)), WithTTL(time.Duration(ttl)), WithMaxHold(time.Duration(maxHold)), WithMaxWait(time.Duration(maxHold)),
			WithMinValidity(time.Duration(minValidity)), WithoutRenewal(), WithoutFairness(), WithOutageTimeout(time.Duration(maxHold)), WithReentry()}
		options := []Option{WithMaxTTL(time.Duration(maxTTL)), WithNodeTimeout(time.Duration(nodeTimeout)), WithDrift(drift),
			WithNodeCount(nodeCount), WithUnsafeRecoveryOff()}
		given := []any{masters, time.Duration(every), time.Duration(ttl), time.Duration(ttl).Truncate(time.Millisecond), time.Duration(maxHold), time.Duration(minValidity),
			time.Duration(maxTTL), time.Duration(maxTTL).Truncate(time.Millisecond), time.Duration(nodeTimeout), factor, drift.Constant, nodeCount,
			DefaultTTL, DefaultMaxTTL, DefaultTTL / 3}
		names := func(err error, what ...any) {
			t.Helper()
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%v is no ErrConfig", err)
			}
			for _, v := range what {
				if strings.Contains(err.Error(), fmt.Sprint(v)) {
					return
				}
			}
			t.Errorf("%q names none of %v", err, what)
		}

		var opts []Option
		var locks []LockOption
		for i, o := range lockOptions { // for the client, for the lock, or not at all
			switch set >> i & 1 {
			case 0:
				opts = append(opts, o)
			default:
				locks = append(locks, o)
			}
		}
		for i, o := range options {
			if masters>>i&1 == 0 {
				opts = append(opts, o)
			}
		}
		settings, err := apply(opts)
		if err != nil {
			names(err, given...)
			return
		}
		if err := settings.checkCount(masters); err != nil {
			names(err, masters, "no masters")
			return
		}
		c := &Client{settings: settings}
		sound(t, c, &c.lock)
		m := c.Mutex(name, locks...)
		if err := checkName(name); err != nil {
			names(m.check(), name, len(name), fmt.Sprintf("%q", name), "empty")
		} else if m.check() != nil {
			names(m.check(), given...)
		} else {
			sound(t, c, &m.ls)
		}
	})
}

// sound fails unless settings that passed their check can be worked with, by the
// words of their documentation and in numbers that do not overflow.
func sound(t *testing.T, c *Client, l *lockSettings) {
	t.Helper()
	ttl, drift := float64(l.TTL), float64(l.TTL)*c.drift.Factor+float64(c.drift.Constant)
	left := ttl - drift - float64(l.MinValidity) + 1 // a rounding
	switch {
	case l.TTL < minTTL || l.TTL%time.Millisecond != 0,
		!c.noRecovery && l.TTL > c.maxTTL,
		!(c.drift.Factor >= 0 && c.drift.Factor < 1) || c.drift.Constant < 0,
		l.MinValidity < 0 || left <= 0,
		c.drift.Validity(l.TTL, 0) <= l.MinValidity || c.drift.Validity(l.TTL, 0) > l.TTL,
		l.maxHold < 0,
		c.nodeTimeout < time.Millisecond,
		!l.Fixed && (l.every() <= 0 || float64(l.every())+float64(hold.Margin(l.TTL)) > ttl-drift+1):
		t.Errorf("passed: %+v and %+v", c.settings, *l)
	}
	// From a clock that has run for a century.
	wait := time.Duration(1)
	if !c.noRecovery {
		terms, err := membership.NewTerms([]string{"a"}, c.maxTTL, c.drift.Factor, c.drift.Constant, c.fixedMasters)
		if err != nil {
			return // refused when the masters are known
		}
		wait = terms.Wait()
	}
	for _, d := range []time.Duration{wait, l.TTL + 2*c.drift.Of(l.TTL), c.nodeTimeout + attempt.ReleaseGrace} {
		if now := 100 * longest; d <= 0 || now+d <= now {
			t.Errorf("%v overflows: %+v and %+v", d, c.settings, *l)
		}
	}
	if wait < l.TTL && !c.noRecovery {
		t.Errorf("a wait of %v for %+v", wait, *l)
	}
}

// A maximum TTL below the default TTL lowers the default of every lock, whatever the order of the
// options. A TTL that WithTTL set stays as it is.
func TestWithMaxTTL_belowTheDefault_lowersIt(t *testing.T) {
	for _, tc := range []struct {
		opts []Option
		want time.Duration
	}{
		{nil, DefaultTTL},
		{[]Option{WithMaxTTL(time.Second)}, time.Second},
		{[]Option{WithMaxTTL(10 * time.Millisecond)}, 10 * time.Millisecond},
		{[]Option{WithMaxTTL(time.Minute)}, DefaultTTL},
		{[]Option{WithMaxTTL(5 * time.Second), WithTTL(time.Second)}, time.Second},
		{[]Option{WithTTL(5 * time.Second), WithMaxTTL(5 * time.Second)}, 5 * time.Second},
	} {
		s, err := apply(tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		c := &Client{settings: s}
		for _, m := range []*Mutex{c.Mutex("a"), c.Mutex("b", WithoutFairness())} {
			if m.check() != nil || m.ls.TTL != tc.want || m.ls.every() >= tc.want {
				t.Errorf("TTL %v, renewed every %v, %v; want %v", m.ls.TTL, m.ls.every(), m.check(), tc.want)
			}
		}
		if err := c.Mutex("a", WithTTL(s.maxTTL+time.Second)).check(); !errors.Is(err, ErrConfig) {
			t.Errorf("a TTL above the maximum: %v", err)
		}
	}
}
