// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// lane is one goroutine with one connection: it takes whatever is queued and sends it as one pipeline.
type lane struct {
	client *redis.Client
	conn   *redis.Conn
	wake   chan struct{} // holds one token when there may be something to take
	done   chan struct{}

	mu     sync.Mutex
	queue  []request
	closed bool
}

// request is one command to one master, and who counts its reply.
type request struct {
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

func (l *lane) submit(r request) {
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
	var batch []request
	pipe := l.conn.Pipeline()
	for {
		var closed bool
		if batch, closed = l.take(batch); len(batch) == 0 {
			if closed {
				return
			}
			<-l.wake
			continue
		}
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
	_ = l.conn.Close()
	_ = l.client.Close()
}
