// SPDX-License-Identifier: Apache-2.0

// Package resp is the protocol of Redis as a master in memory speaks it: commands in, replies out in RESP2, which
// clients of RESP3 read as well, and the replies' way to the client.
//
// It knows no command, and has no goroutine and no clock but package time's, so it runs in a bubble of
// testing/synctest. A reply is nil, a number, a string, a [Status], an error, a list or a map of these, a
// [Subscribed], or [Replies]; one of another type reaches the client as an error that names it.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Status is a reply such as OK, as against a string.
type Status string

var errProtocol = errors.New("ERR Protocol error")

// Parse takes the first command off in. It returns no words when there is
// only a part of one yet.
func Parse(in []byte) (words []string, rest []byte, err error) {
	n, rest, err := parseCount(in, '*')
	if n < 0 || err != nil {
		return nil, in, err
	}
	words = make([]string, 0, min(n, 1024))
	for range n {
		var size int
		if size, rest, err = parseCount(rest, '$'); size < 0 || err != nil || len(rest) < size+2 {
			return nil, in, err
		}
		words = append(words, string(rest[:size]))
		rest = rest[size+2:]
	}
	return words, rest, nil
}

// parseCount reads a line of mark and a number, -1 when the line is not whole.
func parseCount(in []byte, mark byte) (n int, rest []byte, err error) {
	line, rest, whole := bytes.Cut(in, []byte("\r\n"))
	if !whole {
		return -1, in, nil
	}
	if len(line) == 0 || line[0] != mark {
		return -1, in, errProtocol
	}
	n, err = strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 {
		return -1, in, errProtocol
	}
	return n, rest, nil
}

// appendReply encodes reply behind b.
func appendReply(b []byte, reply any) []byte {
	switch r := reply.(type) {
	case nil:
		return append(b, "$-1\r\n"...)
	case Status:
		return append(append(append(b, '+'), r...), "\r\n"...)
	case error:
		return append(append(append(b, '-'), r.Error()...), "\r\n"...)
	case string:
		return append(append(appendCount(b, '$', int64(len(r))), r...), "\r\n"...)
	case int:
		return appendCount(b, ':', int64(r))
	case int64:
		return appendCount(b, ':', r)
	case []int64:
		b = appendCount(b, '*', int64(len(r)))
		for _, n := range r {
			b = appendCount(b, ':', n)
		}
		return b
	case []any:
		b = appendCount(b, '*', int64(len(r)))
		for _, v := range r {
			b = appendReply(b, v)
		}
		return b
	case []string:
		b = appendCount(b, '*', int64(len(r)))
		for _, s := range r {
			b = appendReply(b, s)
		}
		return b
	case map[string]string:
		b = appendCount(b, '*', 2*int64(len(r)))
		for _, k := range slices.Sorted(maps.Keys(r)) {
			b = appendReply(appendReply(b, k), r[k])
		}
		return b
	case Replies:
		for _, one := range r {
			b = appendReply(b, one)
		}
		return b
	case Subscribed:
		b = appendReply(appendReply(append(b, "*3\r\n"...), r.Kind), r.Channel)
		return appendCount(b, ':', int64(r.Count))
	}
	return appendReply(b, fmt.Errorf("ERR nodetest cannot encode a %T", reply))
}

// Replies are several to one command; Subscribed is one of those to SUBSCRIBE.
type (
	Replies    []any
	Subscribed struct {
		Kind, Channel string
		Count         int
	}
)

func appendCount(b []byte, mark byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, mark), n, 10), "\r\n"...)
}
