// SPDX-License-Identifier: Apache-2.0

// Package loopback finds TCP ports on 127.0.0.1 for servers that come and go on one address.
//
// Guarantee: on Linux a reserved port stays ours from Reserve to Release, whether or not anybody listens on it at the moment. Elsewhere
// it was merely free when it was reserved.
package loopback

import (
	"net"
	"strconv"
)

// Number returns the port.
func (p *Port) Number() int { return p.number }

// Addr returns "127.0.0.1:port".
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }
