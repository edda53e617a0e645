// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/internal/needs"
)

// A master that does not answer when its setting is to be put back is told so again: else it is full, or evicts, for ever.
func TestSettings_masterSilentWhenItIsHealed_areOfBefore(t *testing.T) {
	needs.Redis(t)
	c, err := cluster.Open(t.Context(), cluster.Config{Driver: cluster.Process, Masters: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	target := &Target{TTL: time.Hour, Opened: func(context.Context) error { return nil }}
	for _, m := range c.Masters() {
		target.Nodes = append(target.Nodes, NewNode(m.Name(), m))
	}
	values := func(name string) (got []string) {
		t.Helper()
		for _, m := range c.Masters() {
			look := redis.NewClient(&redis.Options{Addr: m.Addr()})
			v, err := look.ConfigGet(t.Context(), name).Result()
			if err := errors.Join(err, look.Close()); err != nil {
				t.Fatal(err)
			}
			got = append(got, v[name])
		}
		return got
	}
	for name, f := range map[string]func(*strike) error{"maxmemory": fill, "maxmemory-policy": changePolicy} {
		t.Run(name, func(t *testing.T) {
			before := values(name)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &strike{ctx: ctx, target: target, rand: rand.New(rand.NewPCG(1, 1))}
			struck := make(chan error, 1)
			go func() { struck <- f(s) }()
			i := -1
			for end := time.Now().Add(20 * time.Second); i < 0 && time.Now().Before(end); {
				i = slices.IndexFunc(values(name), func(v string) bool { return v != before[0] })
			}
			if i < 0 {
				t.Fatal("no master was struck")
			}
			m := c.Masters()[i]
			if err := m.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			resumed := make(chan error, 1)
			time.AfterFunc(1500*time.Millisecond, func() { resumed <- m.Unpause(t.Context()) }) // longer than a command of Admin may take
			cancel()
			<-struck // it may not have seen that the master is full
			s.end()
			if err := errors.Join(s.unhealed, <-resumed); err != nil {
				t.Error(err)
			}
			if after := values(name); !slices.Equal(after, before) {
				t.Errorf("%s is %q, was %q", name, after, before)
			}
		})
	}
}
