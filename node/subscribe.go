// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/wire"
)

const (
	// linger is how long the connection for messages stays open after its last channel
	// was unsubscribed. A contended lock needs it again soon.
	linger = time.Second
	// pingEvery and silentAfter detect a connection that is open but dead. go-redis
	// writes pings by itself, and does not notice that the answers are missing.
	pingEvery, silentAfter = 2 * time.Second, 5 * time.Second
)

// subscription is a node's one connection for messages, shared by all channels. It opens
// for the first channel and closes a little after the last.
type subscription struct {
	node    *redisNode
	life    context.Context // close ends it, and with it the connection
	endLife context.CancelFunc

	// hears is the run_id of the server that has confirmed the channel of the client's wakes; nil: none. That need not be the
	// master of the lane: in a Redis Cluster a slot moves to another server, and a subscription does not break.
	hears atomic.Pointer[string]

	mu   sync.Mutex
	lane string // run_id of the server that the lane is connected to; empty: none
	// admitted is the run_id of the server that the lane was last connected to; empty: none was, or since then the coordinator let it use none.
	admitted string
	want     map[string]bool
	running  bool
	closed   bool
	changed  chan struct{} // signalled when want or closed changes
	wg       sync.WaitGroup
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
	s.signalLocked()
}

// hearsFrom says whether messages of the server with that run_id reach the client.
func (s *subscription) hearsFrom(runID string) bool {
	on := s.hears.Load()
	return on != nil && *on == runID
}

// follow has the subscription be on the server that the lane is connected to. runID is empty while the lane has no connection.
func (s *subscription) follow(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lane = runID
	if runID != "" {
		s.admitted = runID
	}
	s.signalLocked()
}

// refuse says that the coordinator does not let the lane use the server that answers now.
func (s *subscription) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted = ""
}

// speaksFor says whether a message of l's server is one of the node's master. Invariant: the coordinator has let the lane use that server. Without
// that, a server of which two nodes have an address would hand its one vote twice (docs/safety.md A25): only the lane asks whether it may be used.
func (s *subscription) speaksFor(l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitted != "" && l.runID == s.admitted
}

// astray says whether the lane is connected to another server than l.
func (s *subscription) astray(l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lane != "" && l.runID != s.lane
}

func (s *subscription) signalLocked() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *subscription) close() {
	s.mu.Lock()
	s.closed = true
	s.signalLocked()
	s.mu.Unlock()
	s.endLife()
	s.wg.Wait()
}

// run keeps a connection that is subscribed to the wanted channels. It makes a new one
// when the connection breaks or goes silent.
func (s *subscription) run() {
	for s.session() {
		select {
		case <-s.node.quit:
		case <-time.After(probeMax/2 + s.node.cfg.jitter(probeMax/2)):
		}
	}
}

// session is the life of one connection. It reports whether run must make another.
func (s *subscription) session() bool {
	ctx, cancel := context.WithTimeout(s.life, 2*s.node.cfg.DialTimeout)
	opts, socket, _, err := s.node.dial(ctx)
	cancel()
	if err != nil {
		return !s.finish()
	}
	l := s.listen(&opts, socket)
	if l == nil {
		return !s.finish()
	}
	defer s.hears.CompareAndSwap(&l.runID, nil) // behind close, which ends the goroutine that stores it; the next session may have stored its own
	defer l.close()

	have := make(map[string]bool)
	// The jitter keeps clients that started together from pinging together, which would
	// stop the masters for a moment each time.
	tick := time.NewTicker(pingEvery - s.node.cfg.jitter(pingEvery/4))
	defer tick.Stop()
	emptySince := time.Time{} // zero while a channel is wanted
	for {
		if s.astray(l) {
			return true
		}
		add, drop, closed := s.diff(have)
		l.update(add, drop)
		var idle <-chan time.Time
		switch {
		case closed:
			return false
		case len(have) > 0:
			emptySince = time.Time{}
		case emptySince.IsZero():
			emptySince = time.Now()
			fallthrough
		default:
			left := linger - time.Since(emptySince)
			if left <= 0 && s.finish() {
				return false
			}
			idle = time.After(left)
		}
		select {
		case <-s.changed:
		case <-l.broken:
			return true
		case <-idle:
		case <-tick.C:
			if !l.check() {
				return true
			}
			l.forget(have)
		}
	}
}

// diff changes have to the wanted channels, and returns what that adds and drops.
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
	slices.SortFunc(add, wakesFirst) // as any order of a map would make two simulations of one seed differ
	slices.Sort(drop)
	return add, drop, s.closed
}

// wakesFirst orders channels: the client's wakes come before those of single locks.
func wakesFirst(a, b string) int {
	switch wakes := protocol.IsWake(a); {
	case wakes == protocol.IsWake(b):
		return strings.Compare(a, b)
	case wakes:
		return -1
	}
	return 1
}

// finish stops the subscription, and reports whether it did. It does not if a channel is
// wanted again.
func (s *subscription) finish() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.want) > 0 && !s.closed {
		return false
	}
	s.running = false
	return true
}

// listener is one connection for messages, and the goroutine that reads it.
type listener struct {
	client *redis.Client
	pubsub *redis.PubSub
	runID  string // of the server
	hangUp func()
	began  time.Time     // with its monotonic reading: the host's clock may be set
	heard  atomic.Int64  // when the master last sent something, in ns since began
	broken chan struct{} // closed when the reader has ended
	denied atomic.Bool   // the master has refused a channel since the last forget
	on     sync.Map      // the channels that the master has confirmed
}

// listen greets the master on socket and starts a listener. It returns nil if the master
// does not answer.
func (s *subscription) listen(opts *redis.Options, socket net.Conn) *listener {
	l := &listener{began: time.Now(), hangUp: closeWith(s.life, socket), broken: make(chan struct{})}
	before := opts.OnConnect
	opts.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if owner := s.node.binding.Owner; owner != "" {
			_ = cn.ClientSetName(ctx, owner).Err() // without the right the connection has no name
		}
		if before != nil {
			if err := before(ctx, cn); err != nil {
				return err
			}
		}
		server, err := cn.Info(ctx, "server").Result()
		l.runID = protocol.InfoField(server, "run_id")
		return err
	}
	l.client = redis.NewClient(opts)
	l.pubsub = l.client.Subscribe(background)
	// The greeting comes before the reader starts: go-redis greets under the lock that
	// the reader needs too, and a goroutine that waits for a lock stops synctest's clock.
	if err := l.pubsub.Ping(background); err != nil {
		_ = l.pubsub.Close()
		_ = l.client.Close()
		l.hangUp()
		return nil
	}
	l.heard.Store(int64(time.Since(l.began)))
	go func() {
		defer close(l.broken)
		s.receive(l)
	}()
	return l
}

func (l *listener) close() {
	_ = l.pubsub.Close()
	_ = l.client.Close()
	<-l.broken
	l.hangUp()
}

// update subscribes to add and unsubscribes from drop. It ignores errors, because the
// reader gets the same. Each channel has a SUBSCRIBE of its own: the master refuses one as a whole
// that names a channel which the user may not hear.
func (l *listener) update(add, drop []string) {
	for _, channel := range add {
		_ = l.pubsub.Subscribe(background, channel)
	}
	if len(drop) > 0 {
		_ = l.pubsub.Unsubscribe(background, drop...)
	}
}

// forget takes out of have what the master has refused, so that it is asked for again: the user may have been given the right.
func (l *listener) forget(have map[string]bool) {
	if !l.denied.Swap(false) {
		return
	}
	for channel := range have {
		if _, on := l.on.Load(channel); !on {
			delete(have, channel)
		}
	}
}

// check pings the master if it has sent nothing for some time. It reports false if the
// master has been silent for too long.
func (l *listener) check() bool {
	silence := time.Since(l.began) - time.Duration(l.heard.Load())
	if silence > silentAfter {
		return false
	}
	if silence > pingEvery/2 {
		_ = l.pubsub.Ping(background)
	}
	return true
}

// receive hands messages to the coordinator until the connection breaks.
func (s *subscription) receive(l *listener) {
	b := &s.node.binding
	for {
		msg, err := l.pubsub.Receive(background)
		switch {
		case err == nil, wire.NoWrites(err) != nil: // with such an error it answers a PING, as if that were a write
		case redis.IsPermissionError(err), wire.Lacks(err): // of a channel that the user may not hear; it hears the others, or none
			l.denied.Store(true)
		default:
			return
		}
		l.heard.Store(int64(time.Since(l.began)))
		switch msg := msg.(type) {
		case *redis.Message:
			if b.Message != nil && s.speaksFor(l) {
				b.Message(msg.Channel, msg.Payload)
			}
		case *redis.Subscription:
			subscribed := msg.Kind == "subscribe"
			if l.on.Delete(msg.Channel); subscribed {
				l.on.Store(msg.Channel, true)
			}
			if protocol.IsWake(msg.Channel) {
				s.hears.CompareAndSwap(&l.runID, nil)
				if subscribed {
					s.hears.Store(&l.runID)
				}
			}
			if subscribed && b.Subscribed != nil {
				b.Subscribed(msg.Channel)
			}
		}
	}
}
