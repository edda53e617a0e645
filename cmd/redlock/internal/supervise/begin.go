// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// What a shell returns for a command that it cannot run.
const (
	ExitCannotExecute = 126
	ExitNotFound      = 127
)

// start starts the process of the command. That waits until begin is called, which is when the guard knows its group: a command that had
// begun could start processes that nobody ends if this process were killed at that moment.
func (r *run) start(c Command) (begin func(), err error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// The command inherits the files that this process was started with, under their numbers. So this one has the number that it has here.
	fd := int(in.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		_ = out.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	r.group, err = syscall.ForkExec(self, append([]string{beginName, strconv.Itoa(fd), c.Path}, c.Args...), &syscall.ProcAttr{
		Env:   c.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   commandAttr(),
	})
	if err != nil {
		_ = out.Close()
		return nil, os.NewSyscallError("fork", err)
	}
	return func() {
		_, _ = out.Write([]byte{1})
		_ = out.Close()
	}, nil
}

// beginMain is the process of the command until it becomes the command.
func beginMain(fd, path string, args []string) {
	n, err := strconv.Atoi(fd)
	if err != nil {
		os.Exit(ExitCannotExecute)
	}
	syscall.CloseOnExec(n)
	if n, err := syscall.Read(n, make([]byte, 1)); n != 1 || err != nil {
		os.Exit(ExitCannotExecute) // the process that was to say so has died
	}
	err = syscall.Exec(path, args, os.Environ())
	fmt.Fprintf(os.Stderr, "redlock: %s: %v\n", path, err)
	if errors.Is(err, fs.ErrNotExist) {
		os.Exit(ExitNotFound)
	}
	os.Exit(ExitCannotExecute)
}
