// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp says whether the other side has closed c, without waiting and without taking
// anything from it. False also when that cannot be told.
func hungUp(c net.Conn) bool {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	// Not raw.Read, which fails when the deadline of the read before is over.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return gone || err != nil
}
