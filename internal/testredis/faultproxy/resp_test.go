// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
)

var replies = []string{
	"+OK\r\n", "-ERR no\r\n", ":-5\r\n", "$5\r\nhello\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
	"*2\r\n*2\r\n:1\r\n$1\r\na\r\n+x\r\n", "_\r\n", "#t\r\n", ",3.14\r\n", "(123456789012345678901234567890\r\n",
	"!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "~2\r\n:1\r\n:2\r\n", ">2\r\n+message\r\n$1\r\nx\r\n",
	"|1\r\n+ttl\r\n:5\r\n*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n", "$4\r\n\r\n+\r\r\n", "+" + strings.Repeat("long", 5000) + "\r\n",
	strings.Repeat("*1\r\n", 10000) + ":1\r\n",
}

func TestReadReply_manyInOneStream_splitExactly(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader(strings.Join(replies, "")), 16)
	var m message
	for _, want := range replies {
		if err := m.readReply(r); err != nil || string(m.bytes) != want {
			t.Fatalf("read %.60q, %v; want %.60q", m.bytes, err, want)
		}
	}
	if err := m.readReply(r); err == nil {
		t.Error("something left")
	}
}

func TestReadReply_cutAnywhere_errorNotHalfAReply(t *testing.T) {
	var m message
	for _, reply := range replies[:len(replies)-2] {
		for i := range len(reply) {
			if err := m.readReply(bufio.NewReader(strings.NewReader(reply[:i]))); err == nil {
				t.Errorf("%.60q taken for a whole reply", reply[:i])
			}
		}
	}
}

func TestReadCommand_arrayAndInline_arguments(t *testing.T) {
	in := "*2\r\n$3\r\nGET\r\n$4\r\n\r\n *\r\nPING  twice\r\n\r\n*0\r\n*1\r\n$0\r\n\r\n*-1\r\n"
	r := bufio.NewReaderSize(strings.NewReader(in), 16)
	var m message
	var all bytes.Buffer
	for _, want := range []string{`["GET" "\r\n *"]`, `["PING" "twice"]`, `[]`, `[]`, `[""]`, `[]`} {
		if err := m.readCommand(r); err != nil || fmt.Sprintf("%q", m.args) != want {
			t.Fatalf("read %q, %v; want %s", m.args, err, want)
		}
		all.Write(m.bytes)
	}
	if all.String() != in {
		t.Errorf("bytes %q", all.String())
	}
}

// Whatever comes, reading ends, does not panic, and never invents or loses a byte of what it took.
func FuzzRead(f *testing.F) {
	for _, reply := range replies {
		f.Add([]byte(reply))
	}
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("*1048577\r\n$-5\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, read := range []func(*message, *bufio.Reader) error{(*message).readCommand, (*message).readReply} {
			r := bufio.NewReaderSize(bytes.NewReader(in), 16)
			var m message
			rest := in
			for read(&m, r) == nil {
				if len(m.bytes) == 0 || !bytes.HasPrefix(rest, m.bytes) {
					t.Fatalf("read %q of %q", m.bytes, rest)
				}
				rest = rest[len(m.bytes):]
			}
		}
	})
}
