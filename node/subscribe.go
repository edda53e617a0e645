// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// linger is how long the connection for messages outlives its last channel:
	// a hot lock is waited for again at once.
	linger = time.Second
	// pingEvery and silentAfter find a connection that is open and dead. go-redis
	// writes pings by itself but never misses their answers.
	pingEvery, silentAfter = 2 * time.Second, 5 * time.Second
)

// subscription is a node's one connection for messages, shared by all channels.
// It is there from the first channel until a little after the last.
type subscription struct {
	r    *redisNode
	life context.Context // ended by close: no connection outlives it
	end  context.CancelFunc

	mu      sync.Mutex
	want    map[string]bool
	running bool
	closed  bool
	changed chan struct{} // want or closed changed
	wg      sync.WaitGroup
}

// Subscribe implements [Node].
func (r *redisNode) Subscribe(channel string) { r.sub.set(channel, true) }

// Unsubscribe implements [Node].
func (r *redisNode) Unsubscribe(channel string) { r.sub.set(channel, false) }

func (s *subscription) set(channel string, want bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.want[channel] == want {
		return
	}
	if want {
		s.want[channel] = true
	} else {
		delete(s.want, channel)
	}
	if want && !s.running {
		s.running = true
		s.wg.Go(s.run)
	}
	s.wakeLocked()
}

func (s *subscription) wakeLocked() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *subscription) close() {
	s.mu.Lock()
	s.closed = true
	s.wakeLocked()
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
}

// run keeps a connection subscribed to what is wanted, and makes a new one when
// it breaks or goes silent.
func (s *subscription) run() {
	for s.session() {
		select {
		case <-s.r.quit:
		case <-time.After(probeMax/2 + s.r.cfg.jitter(probeMax/2)):
		}
	}
}

// session is one life of the connection. It reports whether another is wanted.
func (s *subscription) session() bool {
	ctx, cancel := context.WithTimeout(s.life, s.r.cfg.DialTimeout)
	opts, wire, err := s.r.dial(ctx)
	cancel()
	if err != nil {
		return !s.finish()
	}
	unhook := closeWith(s.life, wire)
	defer unhook()
	client := redis.NewClient(&opts)
	pubsub := client.Subscribe(background)
	// Greet before there is a reader: go-redis does it under the lock that the reader
	// needs too, and a goroutine that waits for a lock stops synctest's clock.
	if err := pubsub.Ping(background); err != nil {
		_ = pubsub.Close()
		_ = client.Close()
		return !s.finish()
	}
	var heard atomic.Int64 // when the master last said something
	heard.Store(time.Now().UnixNano())
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		s.receive(pubsub, &heard)
	}()
	defer func() {
		_ = pubsub.Close()
		_ = client.Close()
		<-broken
	}()

	have := make(map[string]bool)
	// Not all at the same time, and only where nothing was heard: the clients that were
	// started together would stop the masters for a moment each time.
	tick := time.NewTicker(pingEvery - s.r.cfg.jitter(pingEvery/4))
	defer tick.Stop()
	empty := time.Time{} // since when nothing is wanted
	for {
		add, drop, closed := s.diff(have)
		// An error is no news: receive finds the same.
		if len(add) > 0 {
			_ = pubsub.Subscribe(background, add...)
		}
		if len(drop) > 0 {
			_ = pubsub.Unsubscribe(background, drop...)
		}
		var idle <-chan time.Time
		switch {
		case closed:
			return false
		case len(have) > 0:
			empty = time.Time{}
		case empty.IsZero():
			empty = time.Now()
			fallthrough
		default:
			left := linger - time.Since(empty)
			if left <= 0 && s.finish() {
				return false
			}
			idle = time.After(left)
		}
		select {
		case <-s.changed:
		case <-broken:
			return true
		case <-idle:
		case <-tick.C:
			switch silence := time.Since(time.Unix(0, heard.Load())); {
			case silence > silentAfter:
				return true
			case silence > pingEvery/2:
				_ = pubsub.Ping(background)
			}
		}
	}
}

// diff brings have up to what is wanted and says what that takes.
func (s *subscription) diff(have map[string]bool) (add, drop []string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.want {
		if !have[ch] {
			have[ch] = true
			add = append(add, ch)
		}
	}
	for ch := range have {
		if !s.want[ch] {
			delete(have, ch)
			drop = append(drop, ch)
		}
	}
	return add, drop, s.closed
}

// finish ends the subscription unless somebody wants it again.
func (s *subscription) finish() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.want) > 0 && !s.closed {
		return false
	}
	s.running = false
	return true
}

// receive hands on what the master says until the connection breaks.
func (s *subscription) receive(pubsub *redis.PubSub, heard *atomic.Int64) {
	b := &s.r.bound
	for {
		msg, err := pubsub.Receive(background)
		if err != nil {
			return
		}
		heard.Store(time.Now().UnixNano())
		switch msg := msg.(type) {
		case *redis.Message:
			if b.Message != nil {
				b.Message(msg.Channel, msg.Payload)
			}
		case *redis.Subscription:
			if msg.Kind == "subscribe" && b.Subscribed != nil {
				b.Subscribed(msg.Channel)
			}
		}
	}
}
