// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"strings"

	"github.com/redlock-go/redlock/node/internal/wire"
)

// lastWordsMax bounds what lastWords keeps. It is longer than any error of a server, but for the advice of
// protected mode, whose beginning says what it is.
const lastWordsMax = 120

// lastWords is a socket that keeps the error with which a server answers the first command of a connection. A server that has too
// many clients, or is in protected mode, says so unasked and hangs up. go-redis takes that for the refusal of HELLO, sends
// the next command, and reports that the connection ended.
type lastWords struct {
	net.Conn
	text string
	read bool // the first answer was read
}

// Read implements net.Conn. Only the goroutine of the lane reads.
func (c *lastWords) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.read && n > 0 {
		c.read = true
		if b[0] == '-' {
			c.text, _, _ = strings.Cut(string(b[1:min(n, lastWordsMax)]), "\r\n")
		}
	}
	return n, err
}

// or returns what the server said before it hung up, if it did both, and else err.
func (c *lastWords) or(err error) error {
	if c == nil || c.text == "" || wire.IsReply(err) {
		return err
	}
	if said := wire.TurnedAway(c.text); said != nil {
		return said
	}
	return err
}
