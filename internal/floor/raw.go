// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"
)

// raw is a connection that speaks what the floor needs of RESP2, and no more.
type raw struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// dialTimeout is also that of loading the scripts.
const dialTimeout = 5 * time.Second

// dial connects and loads the scripts.
func dial(addr string) (*raw, error) {
	conn, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	w := &raw{conn: conn, in: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	for _, source := range []string{acquireSource, releaseSource} {
		if err := w.load(source); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	_ = conn.SetDeadline(time.Time{})
	return w, nil
}

// load loads a script. Its hash, the answer, is known.
func (w *raw) load(source string) error {
	w.command([]any{"script", "load", source})
	if err := w.flush(); err != nil {
		return err
	}
	head, err := w.line()
	if err != nil {
		return err
	}
	if len(head) == 0 || head[0] != '$' {
		return fmt.Errorf("script load: %s", head)
	}
	_, err = w.line()
	return err
}

// send writes a batch, reads an answer for each of it, and counts them. The first error ends the connection: what is not answered is a no.
func (w *raw) send(batch []request) {
	for _, r := range batch {
		w.command(r.args)
	}
	err := w.flush()
	for _, r := range batch {
		var answer []byte
		if err == nil {
			answer, err = w.line()
		}
		r.round.add(err == nil && string(answer) == ":1")
	}
	if err != nil {
		_ = w.conn.Close()
	}
}

// command appends a command to what is to be sent. Its words are strings and whole numbers.
func (w *raw) command(args []any) {
	w.out = append(strconv.AppendInt(append(w.out, '*'), int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		var word string
		switch v := arg.(type) {
		case string:
			word = v
		case int:
			word = strconv.Itoa(v)
		case int64:
			word = strconv.FormatInt(v, 10)
		}
		w.out = append(strconv.AppendInt(append(w.out, '$'), int64(len(word)), 10), "\r\n"...)
		w.out = append(append(w.out, word...), "\r\n"...)
	}
}

func (w *raw) flush() error {
	_, err := w.conn.Write(w.out)
	w.out = w.out[:0]
	return err
}

// line reads a line, without its end. It is valid until the next one.
func (w *raw) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return line[:max(len(line)-2, 0)], nil
}
