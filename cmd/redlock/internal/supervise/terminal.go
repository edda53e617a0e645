// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import "golang.org/x/sys/unix"

// terminal is the controlling terminal of this process. It has one foreground process group, which may read from it, and which gets what
// Ctrl-C and Ctrl-Z send.
type terminal struct {
	fd     int  // -1 if there is none
	own    int  // the process group of this process
	alone  bool // no other process of this one's group can miss the terminal
	handed bool // to the command
	modes  *unix.Termios
}

func openTerminal() terminal {
	t := terminal{fd: -1, own: unix.Getpgrp()}
	if fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		t.fd = fd
		t.modes, _ = unix.IoctlGetTermios(fd, getTermios)
	}
	// In a pipeline the terminal belongs to all of it, and in a script to the script.
	t.alone = t.own == unix.Getpid() && !piped(0) && !piped(1) && !piped(2)
	return t
}

func piped(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFSOCK
}

// foreground returns the foreground process group, or 0.
func (t *terminal) foreground() int {
	if t.fd < 0 {
		return 0
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// handOver makes group the foreground process group, and reports whether it is. It does so only if this process is in the foreground
// itself, and alone there. asked says that the group wants to use the terminal and was stopped for it: then it has the terminal although
// this process is not alone.
func (t *terminal) handOver(group int, asked bool) bool {
	if t.foreground() != t.own || !t.alone && !asked {
		return false
	}
	t.handed = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
	return t.handed
}

// takeBack makes this process's group the foreground process group if group is.
func (t *terminal) takeBack(group int) {
	if t.handed && t.foreground() == group {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.own)
	}
	t.handed = false
}

// restore sets the modes that the terminal had before the command, which was killed and could not set them (an editor, a pager).
func (t *terminal) restore() {
	if t.fd >= 0 && t.modes != nil && t.foreground() == t.own {
		_ = unix.IoctlSetTermios(t.fd, setTermios, t.modes)
	}
}

func (t *terminal) close() {
	if t.fd >= 0 {
		_ = unix.Close(t.fd)
	}
}
