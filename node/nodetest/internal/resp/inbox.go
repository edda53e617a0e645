// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"os"
	"sync"
	"time"
)

// Inbox is what a client reads from a connection: replies that arrive later than they were sent. No reply overtakes
// another. Its mutex is its master's: Read and SetReadDeadline take that, and who calls another method holds it.
type Inbox struct {
	changed  *sync.Cond // for Read; its lock guards what follows
	broken   error      // the error that Read returns after all replies that arrived before
	replies  []reply    // on their way to the client, in order
	in       []byte     // what the client may read
	deadline time.Time  // of Read
}

// reply is a reply on its way.
type reply struct {
	data    []byte
	arrives time.Time
}

// NewInbox returns an Inbox without replies, with the mutex of its master.
func NewInbox(mu *sync.Mutex) *Inbox { return &Inbox{changed: sync.NewCond(mu)} }

// Send sends answer to the client, where it arrives at the time arrives, or behind the one before.
func (i *Inbox) Send(answer any, arrives time.Time) {
	if i.broken != nil {
		return
	}
	if n := len(i.replies); n > 0 && arrives.Before(i.replies[n-1].arrives) {
		arrives = i.replies[n-1].arrives
	}
	i.replies = append(i.replies, reply{appendReply(nil, answer), arrives})
	i.changed.Broadcast()
}

// Break ends the connection with err. Replies on their way do not arrive.
func (i *Inbox) Break(err error) {
	i.replies = nil
	i.End(err)
}

// End ends the connection with err, unless it has ended. Replies on their way still arrive.
func (i *Inbox) End(err error) {
	if i.broken == nil {
		i.broken = err
	}
	i.changed.Broadcast()
}

// Ended reports whether the connection has ended.
func (i *Inbox) Ended() bool { return i.broken != nil }

// Read returns replies that have arrived. After them it returns the error of a broken
// connection.
func (i *Inbox) Read(b []byte) (int, error) {
	i.changed.L.Lock()
	defer i.changed.L.Unlock()
	for {
		now := time.Now()
		for len(i.replies) > 0 && !i.replies[0].arrives.After(now) {
			i.in = append(i.in, i.replies[0].data...)
			i.replies = i.replies[1:]
		}
		switch {
		case len(i.in) > 0:
			n := copy(b, i.in)
			i.in = i.in[n:]
			return n, nil
		case i.broken != nil && len(i.replies) == 0:
			return 0, i.broken
		case !i.deadline.IsZero() && !i.deadline.After(now):
			return 0, os.ErrDeadlineExceeded
		}
		i.wait(now)
	}
}

// wait waits until something changes for Read.
func (i *Inbox) wait(now time.Time) {
	wake := i.deadline
	if len(i.replies) > 0 && (wake.IsZero() || i.replies[0].arrives.Before(wake)) {
		wake = i.replies[0].arrives
	}
	if !wake.IsZero() {
		defer time.AfterFunc(wake.Sub(now), func() {
			i.changed.L.Lock()
			defer i.changed.L.Unlock()
			i.changed.Broadcast()
		}).Stop()
	}
	i.changed.Wait()
}

// SetReadDeadline is that of a net.Conn.
func (i *Inbox) SetReadDeadline(t time.Time) error {
	i.changed.L.Lock()
	defer i.changed.L.Unlock()
	i.deadline = t
	i.changed.Broadcast()
	return nil
}
