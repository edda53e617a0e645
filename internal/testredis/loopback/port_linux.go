// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"os"
	"syscall"
)

// Port is a TCP port of 127.0.0.1. A socket that is bound to the port, and does not listen, holds it.
//
// It is not enough to find a free port and close it again, for two reasons. While a server is down, another program could take its port: the
// server then could not start again, or clients would talk to the other program. And a client that dials a dead port of the ephemeral range
// may get that same port as its source port, and so connect to itself. The kernel gives a bound port neither to a bind of port 0 nor to a
// connect.
//
// Invariant: fd was bound with SO_REUSEADDR off, so that binding fails if another socket has the port. SO_REUSEADDR is set after that, so that
// a server that sets it too (as redis-server and net.Listen do) can listen on the port. A second reservation of the port still fails.
type Port struct {
	number int
	fd     int
}

// Reserve reserves a free port, until Release or until the process ends.
func Reserve() (*Port, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	p := &Port{fd: fd}
	if err := p.bind(); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

func (p *Port) bind() error {
	free := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(p.fd, free); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	name, err := syscall.Getsockname(p.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	p.number = name.(*syscall.SockaddrInet4).Port
	return nil
}

// Release gives the port back. Call it once.
func (p *Port) Release() { _ = syscall.Close(p.fd) }
