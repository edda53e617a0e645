// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A client whose search for the master never ends holds up nobody.
func TestNew_failoverClient_searchNeverEnds_readyAndCloseReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		never := make(chan struct{})
		defer close(never)
		client := redis.NewClient(&redis.Options{Addr: failoverAddr, Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			<-never
			return nil, errors.New("the end")
		}})
		defer client.Close()
		r, err := openClient(client, Config{})
		noErr(t, err)
		r.Bind(protocol.Binding{})
		if err := r.Ready(t.Context()); !errors.Is(err, ErrDown) {
			t.Errorf("%v, want ErrDown", err)
		}
		time.Sleep(10 * time.Second)
		noErr(t, r.Close())
		if n := dials.Load(); n < 2 || n > dialsAtOnce {
			t.Errorf("%d searches at a time", n)
		}
	})
}

// What a dial returned is for the next caller, and for nobody who comes much later: it may be the server that was the master then.
func TestSlowDial_resultAfterItsCaller_nextOneHasItIfSoon(t *testing.T) {
	for _, tc := range []struct {
		comes time.Duration // when the next caller does
		dials int32
	}{{3 * time.Second, 2}, {6 * time.Second, 1}, {8 * time.Second, 2}} {
		synctest.Test(t, func(t *testing.T) {
			var dials, closed atomic.Int32
			life, end := context.WithCancel(t.Context())
			o := newSlowDial(life, func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				time.Sleep(5 * time.Second)
				c, _ := net.Pipe()
				return closes{c, &closed}, nil
			}, 2*time.Second)
			hurried, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := o.connect(hurried, "tcp", ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			time.Sleep(tc.comes - time.Second)
			c, err := o.connect(t.Context(), "tcp", "")
			noErr(t, err)
			if n := dials.Load(); n != tc.dials {
				t.Errorf("after %v: %d dials, want %d", tc.comes, n, tc.dials)
			}
			_ = c.Close()
			_, _ = o.connect(hurried, "tcp", "") // it may begin one more, which the end of the node closes
			end()
			time.Sleep(10 * time.Second)
			if dials.Load() != closed.Load() {
				t.Errorf("%d dials, %d closed", dials.Load(), closed.Load())
			}
		})
	}
}

// closes counts what is closed.
type closes struct {
	net.Conn
	n *atomic.Int32
}

func (c closes) Close() error {
	c.n.Add(1)
	return c.Conn.Close()
}

// The first dials are sent to a master that is gone, and hang. When another one was promoted, the next dial finds it.
func TestSlowDial_firstOnesHang_nextOneFindsTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		never := make(chan struct{})
		s := newSlowDial(t.Context(), func(context.Context, string, string) (net.Conn, error) {
			if time.Since(began) < 6*time.Second {
				<-never // as a handshake of TLS with a server that was stopped, which looks at no context
				return nil, errors.New("the end")
			}
			c, _ := net.Pipe()
			return c, nil
		}, time.Second)
		for time.Since(began) < 8*time.Second {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c, err := s.connect(ctx, "tcp", "")
			cancel()
			if err == nil {
				_ = c.Close()
				close(never)
				return
			}
		}
		t.Error("nobody finds the master that was promoted after 6 s")
		close(never)
	})
}
