// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Behind failover a master that is silent for longer than 2 s may have been replaced, however long a round waits (docs/safety.md).
func TestOpen_longStallAfter_behindFailoverTheLimitStays(t *testing.T) {
	stands, sentinel := redis.Options{Addr: "127.0.0.1:1"}, redis.Options{Addr: failoverAddr}
	for name, tc := range map[string]struct {
		opts  redis.Options
		seeds []string
		cfg   Config
		want  time.Duration
	}{
		"alone":                {stands, nil, Config{StallAfter: 4 * time.Second}, 8 * time.Second},
		"sentinel":             {sentinel, nil, Config{StallAfter: 4 * time.Second}, 2 * time.Second},
		"slot of a cluster":    {redis.Options{}, []string{"127.0.0.1:1"}, Config{StallAfter: 4 * time.Second, Tag: "t"}, 2 * time.Second},
		"sentinel, and is set": {sentinel, nil, Config{StallAfter: 4 * time.Second, IOTimeout: 3 * time.Second}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := open(tc.opts, tc.cfg, tc.seeds)
			if err != nil {
				t.Fatal(err)
			}
			if r.cfg.IOTimeout != tc.want || r.opts.ReadTimeout != tc.want {
				t.Errorf("%v, and its connection %v, want %v", r.cfg.IOTimeout, r.opts.ReadTimeout, tc.want)
			}
		})
	}
}

// Times that no program waits for are as long as a year: no sum of them is below 0, which would end each dial before it began.
func TestConfig_hugeTimes_areATimeStill(t *testing.T) {
	c := Config{DialTimeout: math.MaxInt64, StallAfter: math.MaxInt64}.withDefaults()
	if 2*c.DialTimeout <= 0 || c.IOTimeout < c.StallAfter || c.IOTimeout <= ioTimeout || 2*c.IOTimeout <= 0 {
		t.Errorf("%+v", c)
	}
}
