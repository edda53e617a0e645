// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package loopback

import "net"

// Port is a port that was free when it was reserved. Nothing holds it, because BSD does not let two sockets share an address as Linux does.
type Port struct{ number int }

// Reserve finds a free port.
func Reserve() (*Port, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Port{number: l.Addr().(*net.TCPAddr).Port}, l.Close()
}

// Release does nothing here.
func (p *Port) Release() {}
