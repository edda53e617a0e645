// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/redlock"
)

// clientEnv marks a process as a client.
const clientEnv = "REDLOCK_CHAOS_CLIENT"

// Serve turns this process into a client if Start started it as one, and then does not return. A program whose executable is given
// to Start calls it before anything else.
func Serve() {
	if os.Getenv(clientEnv) == "" {
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP) // the harness is told, and ends us
	logging.Disable()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The protocol between harness and client has one message a line. The harness sends the Spec, and then stormLine any number of times; the
// end of the input ends the client. The client sends readyLine, and then "+name" when it is granted a lock and "-name" when it releases it.
const (
	readyLine = "ready"
	stormLine = "storm"
)

// stormers is how many more workers a storm lets loose on the hot lock, and for how long.
const (
	stormers  = 20
	stormTime = time.Second
)

// serve runs a client until its input ends.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("workload: no spec: %w", err)
	}
	var spec Spec
	if err := json.Unmarshal(first, &spec); err != nil {
		return fmt.Errorf("workload: spec: %w", err)
	}
	if err := spec.check(); err != nil {
		return err
	}
	f, err := os.Create(spec.History)
	if err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	c, err := newClient(&spec, f, out)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.say(readyLine)
	err = c.work(lines)
	c.close()
	return errors.Join(err, lastPulse(c.history, spec.Name, c.goroutines), f.Close())
}

// work runs the workers until the input ends.
func (c *client) work(lines *bufio.Reader) error {
	spec := c.spec
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	alive, end := context.WithCancel(context.Background())
	pulses := make(chan error, 1)
	go func() { pulses <- Pulses(alive, c.history, spec.Name) }()
	for _, k := range spec.Kinds {
		for i, turn := range crew(k) {
			w := c.worker(fmt.Sprintf("%s.%s%d", spec.Name, k, i+1))
			g.Go(func() error { return w.run(ctx, turn) })
		}
	}
	storms := 0
	go func() { // ends with the process, or with the input
		defer cancel()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.TrimSpace(line) == stormLine {
				storms++
				c.storm(ctx, g, storms)
			}
		}
	}()
	err := g.Wait()
	end()
	return errors.Join(err, <-pulses)
}

// client has what the workers of one process share.
type client struct {
	spec       *Spec
	history    *history.Writer
	locks      *redlock.Client
	register   *redis.Client // nil without registers
	goroutines int           // before the client opened anything

	mu  sync.Mutex
	out io.Writer
}

func newClient(spec *Spec, file, out io.Writer) (*client, error) {
	c := &client{spec: spec, out: out, goroutines: runtime.NumGoroutine()}
	if spec.Header.Versions != nil {
		spec.Header.Versions["redlock"] = Revision() // which may be another than the harness's
	}
	var err error
	if c.history, err = history.NewWriter(file, spec.Header); err == nil {
		err = pulse(c.history, spec.Name, 0, true)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c.locks, err = redlock.Open(ctx, spec.Nodes, redlock.WithTTL(spec.TTL), redlock.WithMaxTTL(spec.MaxTTL), redlock.WithFixedMasters())
	}
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	if spec.Register != "" {
		// Without retries: a write that is sent twice may undo what came between.
		c.register = redis.NewClient(&redis.Options{Addr: spec.Register, MaxRetries: -1, DisableIdentity: true})
	}
	return c, nil
}

func (c *client) close() {
	_ = c.locks.Close()
	if c.register != nil {
		_ = c.register.Close()
	}
}

// worker returns a worker. Its choices depend only on the seed and on its name.
func (c *client) worker(name string) *worker {
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return &worker{
		Recorder: *NewRecorder(c.history, name), spec: c.spec, c: c.locks, register: c.register,
		rand: rand.New(rand.NewPCG(c.spec.Seed, h)), shows: c.show,
	}
}

// storm starts more workers on the hot lock for a while (nemesis waiter-storm).
func (c *client) storm(ctx context.Context, g *errgroup.Group, nth int) {
	ctx, cancel := context.WithTimeout(ctx, stormTime)
	context.AfterFunc(ctx, cancel)
	for i := range stormers {
		w := c.worker(fmt.Sprintf("%s.storm%d.%d", c.spec.Name, nth, i+1))
		g.Go(func() error { return w.run(ctx, (*worker).hotFair) })
	}
}

func (c *client) show(lock string, held bool) {
	if held {
		c.say("+" + lock)
	} else {
		c.say("-" + lock)
	}
}

// say sends a line to the harness. The client works the same if the line is lost.
func (c *client) say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.out, line+"\n")
}
