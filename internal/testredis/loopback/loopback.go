// SPDX-License-Identifier: Apache-2.0

// Package loopback reserves TCP ports on 127.0.0.1, for servers that stop and start again on the same address.
//
// Guarantee: on Linux no other program gets a reserved port from Reserve to Release, whether or not a server listens on it at the moment. On
// other systems the port was free when it was reserved, and nothing more.
//
// The package imports nothing of this module. Packages localredis and faultproxy use [Reserve].
package loopback

import (
	"net"
	"strconv"
)

// Number returns the port.
func (p *Port) Number() int { return p.number }

// Addr returns "127.0.0.1:port".
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }
