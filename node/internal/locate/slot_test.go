// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"errors"
	"io"
	"net"
	"testing"
)

// replyError is an error that a server replies.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// A server that MOVED names is dialled next. A server that does not answer is not dialled
// again before the others.
func TestSlot_whomToAsk(t *testing.T) {
	s := NewSlot([]string{"a:1", "b:1"})
	moved := func(to string) error { return replyError("MOVED 7 " + to) }
	down := &net.OpError{Op: "dial", Err: io.EOF}
	for i, step := range []struct {
		asks  string
		err   error
		again bool
	}{
		{"a:1", moved("::1:7002"), true},  // as a cluster on IPv6 writes it
		{"[::1]:7002", moved(":2"), true}, // no host: that of the server that replied
		{"[::1]:2", down, true},
		{"b:1", replyError("CLUSTERDOWN The cluster is down"), true},
		{"a:1", moved("c:1"), false}, // tried often enough
		{"c:1", replyError("ASK 7 d:1"), false},
		{"b:1", replyError("WRONGPASS"), false},
		{"a:1", errors.New("closed"), false},
	} {
		if got := s.Addr(); got != step.asks {
			t.Errorf("step %d asks %s, want %s", i, got, step.asks)
		}
		if again := s.Redirect(step.err, i+1); again != step.again {
			t.Errorf("step %d: again %v after %v", i, again, step.err)
		}
	}
	// A seed that named the master is dialled again, a seed that was the master is not.
	for i, step := range []struct{ asks, moved string }{{"b:1", "c:1"}, {"b:1", ""}, {"a:1", "c:1"}, {"a:1", "c:1"}} {
		if got := s.Addr(); got != step.asks {
			t.Errorf("search %d asks %s, want %s", i, got, step.asks)
		}
		if step.moved != "" {
			_ = s.Redirect(moved(step.moved), 1)
		}
		s.Search()
	}
}

// A cluster on IPv6 names its servers without brackets. No host is that of the server that replied.
func TestMoved_eachForm_canBeDialled(t *testing.T) {
	for _, tc := range []struct{ moved, asked, want string }{
		{"c:1", "a:1", "c:1"},
		{":2", "a:1", "a:2"},
		{"::1:7002", "a:1", "[::1]:7002"},
		{"[::1]:7002", "a:1", "[::1]:7002"},
		{":7003", "[::1]:7002", "[::1]:7003"},
	} {
		if got, ok := Moved(replyError("MOVED 7 "+tc.moved), tc.asked); got != tc.want || !ok {
			t.Errorf("%s at %s: %q, want %q", tc.moved, tc.asked, got, tc.want)
		}
	}
	if got, ok := Moved(replyError("WRONGPASS"), "a:1"); got != "" || ok {
		t.Errorf("no MOVED names %q", got)
	}
}
