// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
)

// errProtocol: the bytes are not RESP. The proxy treats the sender as if it had closed the connection.
var errProtocol = errors.New("faultproxy: not RESP")

// These limits are far above any real message. They bound what one message can make the proxy allocate.
const (
	maxBulk  = 64 << 20
	maxItems = 1 << 20
)

// message is one command or reply with all its bytes. It is reused: bytes and args are good until the next read.
type message struct {
	bytes []byte
	args  [][]byte // of a command; empty for a reply, and for an empty command, which gets none
	spans [][2]int // where args are in bytes, which moves while it grows
}

// readCommand reads an array of bulk strings, or an inline command (words on one line).
func (m *message) readCommand(r *bufio.Reader) error {
	m.bytes, m.args, m.spans = m.bytes[:0], m.args[:0], m.spans[:0]
	line, err := m.line(r)
	if err != nil {
		return err
	}
	if line[0] != '*' {
		m.args = append(m.args, bytes.Fields(m.bytes)...)
		return nil
	}
	n, err := number(line, maxItems)
	for ; n > 0 && err == nil; n-- {
		err = m.argument(r)
	}
	for _, s := range m.spans {
		m.args = append(m.args, m.bytes[s[0]:s[1]])
	}
	return err
}

func (m *message) argument(r *bufio.Reader) error {
	line, err := m.line(r)
	if err != nil {
		return err
	}
	n, err := number(line, maxBulk)
	if err != nil || line[0] != '$' || n < 0 {
		return errProtocol
	}
	start := len(m.bytes)
	m.spans = append(m.spans, [2]int{start, start + n})
	return m.bulk(r, n)
}

// readReply reads one whole reply of RESP2 or RESP3, attributes before it included.
func (m *message) readReply(r *bufio.Reader) error {
	m.bytes = m.bytes[:0]
	// The loop counts the values that are still to come. Recursion could exhaust the stack on nested values.
	for missing := 1; missing > 0; missing-- {
		line, err := m.line(r)
		if err != nil {
			return err
		}
		n := 0
		switch line[0] {
		case '+', '-', ':', ',', '#', '_', '(':
			continue
		case '$', '=', '!':
			if n, err = number(line, maxBulk); err == nil && n >= 0 {
				err = m.bulk(r, n)
			}
			n = 0
		case '*', '~', '>':
			n, err = number(line, maxItems)
		case '%':
			n, err = number(line, maxItems)
			n *= 2
		case '|': // an attribute comes before a value, and is not counted as a value
			n, err = number(line, maxItems)
			n = 2*n + 1
		default:
			return errProtocol
		}
		if err != nil {
			return err
		}
		missing += max(n, 0)
	}
	return nil
}

// line reads one line with its CRLF into bytes and returns it.
func (m *message) line(r *bufio.Reader) ([]byte, error) {
	start := len(m.bytes)
	for {
		part, err := r.ReadSlice('\n')
		m.bytes = append(m.bytes, part...)
		switch {
		case err == nil:
			return m.bytes[start:], nil
		case err != bufio.ErrBufferFull:
			return nil, err
		case len(m.bytes)-start > maxBulk:
			return nil, errProtocol
		}
	}
}

// bulk reads n bytes and the CRLF behind them.
func (m *message) bulk(r *bufio.Reader, n int) error {
	start := len(m.bytes)
	m.bytes = slices.Grow(m.bytes, n+2)[:start+n+2]
	_, err := io.ReadFull(r, m.bytes[start:])
	return err
}

// number reads the count in a line such as "$5\r\n"; -1 stands for null.
func number(line []byte, limit int) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSuffix(line[1:], []byte("\r\n"))))
	if err != nil || n < -1 || n > limit {
		return 0, errProtocol
	}
	return n, nil
}
