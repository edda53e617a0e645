// SPDX-License-Identifier: Apache-2.0

// Package hostpid names this process, for people: host/pid.
package hostpid

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// maxHost bounds the host in a name, in bytes, so that a name is never longer than a label may be.
const maxHost = 100

// Name is this process as host/pid, in printable ASCII without spaces. It is made once.
var Name = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return name(host, os.Getpid())
})

func name(host string, pid int) string {
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, host)
	if host == "" {
		host = "unknown"
	}
	return host[:min(len(host), maxHost)] + "/" + strconv.Itoa(pid)
}
