// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// lane is one goroutine with one connection: it takes whatever is queued and sends it as one pipeline. The connection is go-redis', or raw.
type lane struct {
	client *redis.Client
	conn   *redis.Conn
	raw    *raw
	wake   chan struct{} // holds one token when there may be something to take
	done   chan struct{}

	mu     sync.Mutex
	queue  []request
	closed bool
}

// request is one command to one master, and who counts its reply. cmd has its arguments too, for go-redis.
type request struct {
	args  []any
	cmd   *redis.IntCmd
	round *round
}

func openLane(opts redis.Options) (*lane, error) {
	// With RESP3 go-redis looks for pushed messages before each pipeline, on a connection that never goes back to its pool with a system
	// call: a tenth of a lone caller's time.
	opts.Protocol = 2
	client := redis.NewClient(&opts)
	l := &lane{client: client, conn: client.Conn(), wake: make(chan struct{}, 1), done: make(chan struct{})}
	for _, s := range []*redis.Script{acquireScript, releaseScript} {
		if err := s.Load(background, l.conn).Err(); err != nil {
			l.disconnect()
			return nil, err
		}
	}
	go l.run()
	return l, nil
}

func openRawLane(addr string) (*lane, error) {
	w, err := dial(addr)
	if err != nil {
		return nil, err
	}
	l := &lane{raw: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l, nil
}

// submit queues a command whose arguments nobody changes.
func (l *lane) submit(args []any, counts *round) {
	r := request{args: args, round: counts}
	if l.raw == nil {
		r.cmd = redis.NewIntCmd(background, args...)
	}
	l.mu.Lock()
	l.queue = append(l.queue, r)
	l.mu.Unlock()
	l.signal()
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) run() {
	defer close(l.done)
	var send func([]request)
	if l.raw != nil {
		send = l.raw.send
	} else {
		send = pipelined(l.conn)
	}
	var batch []request
	for {
		var closed bool
		if batch, closed = l.take(batch); len(batch) == 0 {
			if closed {
				return
			}
			<-l.wake
			continue
		}
		send(batch)
	}
}

// pipelined sends batches with go-redis.
func pipelined(conn *redis.Conn) func([]request) {
	pipe := conn.Pipeline()
	return func(batch []request) {
		for _, r := range batch {
			_ = pipe.Process(background, r.cmd)
		}
		_, _ = pipe.Exec(background) // each command has its own error
		for _, r := range batch {
			r.round.add(r.cmd.Val() == 1) // 0 with an error
		}
	}
}

// take swaps the queue for the batch that is done with.
func (l *lane) take(done []request) (batch []request, closed bool) {
	clear(done)
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, l.queue = l.queue, done[:0]
	return batch, l.closed
}

func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	<-l.done
	l.disconnect()
}

func (l *lane) disconnect() {
	if l.raw != nil {
		_ = l.raw.conn.Close()
		return
	}
	_ = l.conn.Close()
	_ = l.client.Close()
}
