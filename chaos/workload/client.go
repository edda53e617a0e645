// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/redlock"
)

// Serve turns this process into a client if Start started it as one, and then does not return. A program whose executable is given
// to Start calls it before anything else.
func Serve() {
	if !client.Started() {
		return
	}
	logging.Disable()
	client.Main(work)
}

// stormers is how many more workers a storm lets loose on the hot lock, and for how long.
const (
	stormers  = 20
	stormTime = time.Second
)

// work is the work of a client. It ends when ctx ends.
func work(ctx context.Context, s *client.Session) error {
	spec := Spec{}
	if err := json.Unmarshal(s.Line, &spec); err != nil {
		return fmt.Errorf("workload: spec: %w", err)
	}
	if err := spec.check(); err != nil {
		return err
	}
	if err := setMutant(spec.Mutant); err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	c, err := connect(&spec, s)
	if err != nil {
		return err
	}
	if err = firstPulse(c.Records, spec.Name, before); err == nil {
		err = c.work(ctx)
	}
	c.close()
	return errors.Join(err, lastPulse(c.Records, spec.Name, before))
}

// work runs the workers until ctx ends.
func (c *process) work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	alive, end := context.WithCancel(context.Background())
	pulses := make(chan error, 1)
	go func() { pulses <- Pulses(alive, c.Records, c.spec.Name) }()
	for _, k := range c.spec.Kinds {
		for i, turn := range crew(k) {
			w := c.worker(fmt.Sprintf("%s.%s%d", c.spec.Name, k, i+1))
			g.Go(func() error { return w.run(ctx, turn) })
		}
	}
	g.Go(func() error {
		for nth := 1; ; nth++ {
			select {
			case <-c.Storms:
				c.storm(ctx, g, nth)
			case <-ctx.Done():
				return nil
			}
		}
	})
	err := g.Wait()
	end()
	return errors.Join(err, <-pulses)
}

// process has what the workers of one client share.
type process struct {
	*client.Session
	spec     *Spec
	locks    *redlock.Client
	register *redis.Client // nil without registers
}

// connect opens the locks and the register, and tells the harness when the client is ready.
func connect(spec *Spec, s *client.Session) (*process, error) {
	if s.Header.Versions != nil {
		s.Header.Versions["redlock"] = Revision() // which may be another than the harness's
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	locks, err := redlock.Open(ctx, spec.Nodes, redlock.WithTTL(spec.TTL), redlock.WithMaxTTL(spec.MaxTTL), redlock.WithFixedMasters(),
		redlock.WithClientName("")) // see fitting in package chaos
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	c := &process{Session: s, spec: spec, locks: locks}
	if spec.Register != "" {
		// Without retries: a write that is sent twice may undo what came between.
		c.register = redis.NewClient(&redis.Options{Addr: spec.Register, MaxRetries: -1, DisableIdentity: true})
	}
	if err := s.Ready(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *process) close() {
	_ = c.locks.Close()
	if c.register != nil {
		_ = c.register.Close()
	}
}

// worker returns a worker. Its choices depend only on the seed and on its name.
func (c *process) worker(name string) *worker {
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return &worker{
		Recorder: *NewRecorder(c.Records, name), spec: c.spec, c: c.locks, register: c.register,
		rand: rand.New(rand.NewPCG(c.spec.Seed, h)), shows: c.show,
	}
}

// storm starts more workers on the hot lock for a while (nemesis waiter-storm).
func (c *process) storm(ctx context.Context, g *errgroup.Group, nth int) {
	ctx, cancel := context.WithTimeout(ctx, stormTime)
	context.AfterFunc(ctx, cancel)
	for i := range stormers {
		w := c.worker(fmt.Sprintf("%s.storm%d.%d", c.spec.Name, nth, i+1))
		g.Go(func() error { return w.run(ctx, (*worker).hotFair) })
	}
}

func (c *process) show(lock string, held bool) {
	if held {
		c.Granted(lock)
	} else {
		c.Released(lock)
	}
}
