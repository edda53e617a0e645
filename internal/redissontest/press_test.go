// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// Each caller takes its own lock, and all take one, closed and open loop; nothing is left on the masters.
func TestPress_callers_measured(t *testing.T) {
	needs.Java(t)
	servers, direct := quorumtest.Servers(t, 3, localredis.Config{})
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	p, err := StartPress(t.Context(), 2, addrs)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, m := range map[string]Pressing{
		"own":  {Callers: 4, Duration: 300 * time.Millisecond, Own: true},
		"hot":  {Callers: 4, Duration: time.Second, Hold: time.Millisecond},
		"open": {Callers: 4, Duration: time.Second, Own: true, Period: 50 * time.Millisecond},
	} {
		m.Name = name
		saw, err := p.Measure(m)
		if err != nil {
			t.Fatal(err)
		}
		if saw.Count == 0 || saw.P50 <= 0 || saw.P99 < saw.P50 || saw.CPU <= 0 || saw.Elapsed < m.Duration/2 || saw.Squares <= 0 || saw.Failures > 0 {
			t.Errorf("%s: %+v", name, saw)
		}
		if m.Period > 0 && saw.Count > 80 {
			t.Errorf("%s: 80 were asked for, and %d came", name, saw.Count)
		}
		if m.Hold > 0 && saw.Held < time.Duration(saw.Count)*m.Hold {
			t.Errorf("%s: held for %v in all, %d times", name, saw.Held, saw.Count)
		}
	}
	for _, d := range direct {
		if keys := d.Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("left behind: %q", keys)
		}
	}
	once, err := p.Measure(Pressing{Callers: 3, Duration: 5 * time.Second, Own: true, Once: true, Name: "once"})
	if err != nil || once.Count != 3 {
		t.Errorf("%+v, %v", once, err)
	}
}
