// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the other side has closed the idle connection c, or is about to. Of one that is not idle it
// reports whether an answer is there too. It does not wait and reads nothing. If it cannot find out, it returns false.
//
// A server says nothing unasked on a lane's connection, which speaks RESP2 and has no channels. So what
// is there to be read are the last words of one that hangs up: TLS sends an alert before the end.
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
	// Control and not Read, because Read fails after the deadline of the previous read.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = err != unix.EAGAIN && err != unix.EINTR
	})
	return gone || err != nil
}
