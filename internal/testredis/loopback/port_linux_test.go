// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func reserve(t *testing.T) *Port {
	t.Helper()
	p, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReserve_held_nobodyElseIsGivenIt(t *testing.T) {
	held := map[int]bool{}
	for range 200 {
		p := reserve(t)
		defer p.Release()
		if held[p.Number()] {
			t.Fatalf("port %d reserved twice", p.Number())
		}
		held[p.Number()] = true
	}
	for range 200 { // programs that ask for any free port
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if held[l.Addr().(*net.TCPAddr).Port] {
			t.Fatalf("the reserved port %s was given away", l.Addr())
		}
	}
}

func TestReserve_listenerComesAndGoes_portStaysOursUntilRelease(t *testing.T) {
	p := reserve(t)
	for range 3 {
		l, err := net.Listen("tcp4", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := bindExclusively(t, p); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("bind to a reserved port: %v", err)
		}
	}
	p.Release()
	if err := bindExclusively(t, p); err != nil {
		t.Errorf("bind to a released port: %v", err)
	}
}

func bindExclusively(t *testing.T, p *Port) error {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	return syscall.Bind(fd, &syscall.SockaddrInet4{Port: p.Number(), Addr: [4]byte{127, 0, 0, 1}})
}
