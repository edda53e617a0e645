// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"os"
	"syscall"
)

// Port is a TCP port of 127.0.0.1, held by a socket of our own that is bound to it and never listens.
//
// Why not pick a free port, close it and hope: while a server is down another run could take its port, so that it cannot come back or,
// worse, clients talk to a stranger; and a client dialling a dead port of the ephemeral range may be given that very port as its own
// source port and connect to itself. The kernel gives a bound port to nobody, neither to a bind of port 0 nor to a connect.
//
// Invariant: fd is bound exclusively (SO_REUSEADDR off, so binding fails if anybody has the port) and only then marked SO_REUSEADDR,
// which lets a server that sets it too (redis-server and net.Listen do) listen beside us. A second reservation of the port fails either way.
type Port struct {
	number int
	fd     int
}

// Reserve reserves a free port. It ends with Release or with the process.
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
