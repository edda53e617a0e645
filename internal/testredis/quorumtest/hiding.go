// SPDX-License-Identifier: Apache-2.0

package quorumtest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Hiding returns the address of a proxy before the master at addr that hides these fields of INFO, as some
// managed services do. It ends with the test.
func Hiding(t testing.TB, addr string, fields ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	NoErr(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { hide(client, addr, fields) })
		}
	})
	return ln.Addr().String()
}

// hide serves one client, until it or the master hangs up. A hidden field has another name of the same
// length, so that the length of the reply stays right.
func hide(client net.Conn, addr string, fields []string) {
	defer client.Close()
	master, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer master.Close()
	var up sync.WaitGroup
	defer up.Wait()
	defer client.Close()
	up.Go(func() {
		_, _ = io.Copy(master, client)
		_ = master.Close()
	})
	for lines := bufio.NewReader(master); ; {
		line, err := lines.ReadBytes('\n')
		for _, f := range fields {
			if bytes.HasPrefix(line, []byte(f+":")) {
				copy(line, strings.Repeat("x", len(f)))
			}
		}
		if _, err2 := client.Write(line); err != nil || err2 != nil {
			return
		}
	}
}
