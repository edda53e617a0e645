// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A master gets a TTL of 1 ms or more, because 0 would delete the vote that it has just given.
func TestAcquire_ttlBelowAMillisecond_isOne(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{1, time.Millisecond - 1, time.Millisecond} {
		if n := millis(d); n != 1 {
			t.Errorf("%v is %d ms", d, n)
		}
	}
	var v votes
	v.add(&protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), TTL: 100 * time.Microsecond, Wait: &protocol.Wait{Liveness: 1}})
	c := &Conn{Keys: KeysOf("")}
	// evalsha, the script, 3, three keys, n, liveness, state, TTL
	if args := v.call(nil, c); args[7] != int64(1) || args[9] != int64(1) {
		t.Errorf("the call is %v", args)
	}
}
