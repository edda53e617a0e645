// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A server that turns clients away is known as one, whether its words were read on the connection that failed or had to be asked for.
func TestWhyHungUp_turnedAway_isTheErrorOfTheFirstWords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = c.Close()
		}
	}()
	r, err := openURL("redis://"+l.Addr().String(), Config{DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	err = r.whyHungUp(t.Context(), io.EOF)
	if !errors.Is(err, protocol.ErrTurnedAway) || !strings.Contains(err.Error(), "max number of clients") {
		t.Error(err)
	}
}
