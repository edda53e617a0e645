// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import (
	"encoding/binary"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which this program plays another one: the first argument of its command line. That of the guard does not have the name of
// the program in it, so that pkill and killall do not kill both.
const (
	guardName = "lease-guard"
	beginName = "command-of-lease"
)

// Hidden plays the guard, or becomes the command, if this process was started for that. It does not return then. A program calls it
// before anything else.
func Hidden() {
	switch {
	case len(os.Args) == 2 && os.Args[0] == guardName:
		guardMain()
	case len(os.Args) > 4 && os.Args[0] == beginName:
		beginMain(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	}
}

// guard is the process that kills the group when this process cannot.
type guard struct {
	pid int
	w   *os.File
}

// The guard's input is a file of its own, with messages of two numbers: the process group, and the time on sharedClock at which it is to
// be killed. When the input ends, this process has died.
const (
	guardInput  = 3
	messageSize = 16
)

// startGuard starts a guard that is to kill group at that time; a group of 0 does not run yet. The guard finds it in its input when it begins: this
// process may die at any moment after that.
func startGuard(group int, at time.Duration) (*guard, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g := &guard{w: w}
	if group != 0 {
		g.tell(group, at)
	}
	g.pid, err = syscall.ForkExec(self, []string{guardName, strconv.Itoa(os.Getpid())}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1"},
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), r.Fd()},
		// A session of its own, so that what stops or ends the terminal's processes does not reach it.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = w.Close()
		return nil, os.NewSyscallError("fork", err)
	}
	_ = unix.SetNonblock(int(w.Fd()), true) // Fd has made it blocking
	return g, nil
}

// tell tells the guard when to kill group. If the guard has not read what it was told before, it is told nothing: what it knows is too early
// then, never too late.
func (g *guard) tell(group int, at time.Duration) {
	if g.w == nil {
		return
	}
	var m [messageSize]byte
	binary.NativeEndian.PutUint64(m[:], uint64(group))
	binary.NativeEndian.PutUint64(m[8:], uint64(at))
	_, _ = unix.Write(int(g.w.Fd()), m[:])
}

// forget is for a guard that has ended.
func (g *guard) forget() {
	if g.w != nil {
		_ = g.w.Close()
		g.pid, g.w = 0, nil
	}
}

// stop ends the guard before it can take the end of this process for its death.
func (g *guard) stop() {
	if g.pid != 0 {
		_ = unix.Kill(g.pid, syscall.SIGKILL)
		g.forget()
	}
}

// guardMain is the guard's process.
func guardMain() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	type message struct {
		group int
		at    time.Duration
	}
	messages := make(chan message)
	go func() {
		in := os.NewFile(guardInput, "lease")
		var m [messageSize]byte
		for {
			if _, err := io.ReadFull(in, m[:]); err != nil {
				close(messages)
				return
			}
			messages <- message{int(binary.NativeEndian.Uint64(m[:])), time.Duration(binary.NativeEndian.Uint64(m[8:]))}
		}
	}()
	var now message
	// Each second, because timers do not count the time that the machine is suspended, and sharedClock does.
	tick := time.NewTicker(time.Second)
	due := time.NewTimer(time.Hour)
	for alive := true; alive; {
		select {
		case m, ok := <-messages:
			if !ok {
				alive = false
				continue
			}
			now = m
			due.Reset(now.at - sharedClock())
		case <-tick.C:
		case <-due.C:
		}
		alive = now.group == 0 || sharedClock() < now.at
	}
	if now.group != 0 {
		_ = unix.Kill(-now.group, syscall.SIGKILL)
	}
	os.Exit(0)
}
