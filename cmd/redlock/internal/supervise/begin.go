// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/internal/said"
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
	var failing *os.File
	if r.failed, failing, err = os.Pipe(); err != nil {
		_ = out.Close()
		return nil, err
	}
	defer failing.Close()
	// The command inherits the files that this process was started with, under their numbers. So these have the numbers that they have here.
	fds, err := inherited(in, failing)
	if err == nil {
		r.group, err = syscall.ForkExec(self, slices.Concat([]string{beginName}, fds, []string{c.Path}, c.Args), &syscall.ProcAttr{
			Env:   c.Env,
			Files: []uintptr{0, 1, 2},
			Sys:   commandAttr(),
		})
		err = os.NewSyscallError("fork", err)
	}
	if err != nil {
		_ = out.Close()
		_ = r.failed.Close()
		return nil, err
	}
	return func() {
		_, _ = out.Write([]byte{1})
		_ = out.Close()
	}, nil
}

// inherited has a new process inherit files under the numbers that they have here, and returns these.
func inherited(files ...*os.File) (numbers []string, err error) {
	for _, f := range files {
		fd := f.Fd()
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		numbers = append(numbers, strconv.Itoa(int(fd)))
	}
	return numbers, nil
}

// neverRan reports whether the process of the command has ended without becoming it. Nobody has the other end of the pipe any more: it was
// closed when the process became the command, or ended.
func (r *run) neverRan() bool {
	n, _ := r.failed.Read(make([]byte, 1))
	return n == 1
}

// beginMain is the process of the command until it becomes the command. If it cannot, it says so on failing too.
func beginMain(begin, failing, path string, args []string) {
	in, err1 := strconv.Atoi(begin)
	out, err2 := strconv.Atoi(failing)
	if err1 != nil || err2 != nil {
		os.Exit(ExitCannotExecute)
	}
	syscall.CloseOnExec(in)
	syscall.CloseOnExec(out)
	if n, err := syscall.Read(in, make([]byte, 1)); n != 1 || err != nil {
		os.Exit(ExitCannotExecute) // the process that was to say so has died
	}
	err := syscall.Exec(path, args, os.Environ())
	_, _ = syscall.Write(out, []byte{1})
	why, code := fmt.Sprintf("%s: %v", path, err), ExitCannotExecute
	if errors.Is(err, fs.ErrNotExist) {
		code = ExitNotFound
		if _, err := os.Stat(path); err == nil {
			why = said.NoInterpreter.With(path)
		}
	}
	fmt.Fprintf(os.Stderr, "redlock: %s\n", why)
	os.Exit(code)
}
