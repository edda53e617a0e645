// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"

	"github.com/redlock-go/redlock/node"
)

// ErrUpgrade: a read lease cannot become a write lease. Two readers that both
// waited for the other to stop reading would wait for ever; unlock the read
// lease first.
var ErrUpgrade = errors.New("redlock: a read lease cannot be upgraded to a write lease")

// RWMutex is a lock by name that any number may hold for reading, or one for
// writing. Both sides are a [Mutex] with all it has. Readers do not pass a writer
// that waits, so writers do not starve; a reader that dies frees its own part
// when its TTL is over, whoever else reads.
//
// The holder of a write lease may take a read lease with the write lease's
// context and unlock the write lease then: a downgrade, with nobody writing in
// between. The other way is [ErrUpgrade].
//
// One name must not be used for a Mutex and an RWMutex.
type RWMutex struct{ reader, writer *Mutex }

// RWMutex returns the read-write lock called name. Name and options are
// [Client.Mutex]'s.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{
		reader: c.mutex(name, node.Read, opts),
		writer: c.mutex(name, node.Write, opts),
	}
}

// Reader is the side that is shared with other readers.
func (rw *RWMutex) Reader() *Mutex { return rw.reader }

// Writer is the side that is shared with nobody.
func (rw *RWMutex) Writer() *Mutex { return rw.writer }
