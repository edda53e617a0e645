// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lease with a minimum hold has its rests beside its votes. Where some of its votes do not count, because their master waits or does not
// answer, a quorum of rests does not say that the lease is over.
func TestRead_restsOfALease_noHolderRestsThatMayHold(t *testing.T) {
	votes := []protocol.Voting{{Field: "h", Count: 1, Left: time.Second}}
	rest := protocol.Voting{Field: "h", Left: time.Minute}
	holds := &protocol.Inspected{Votes: true, Votings: votes, Rest: rest}
	waits := &protocol.Inspected{Votings: votes, Rest: rest}
	over := &protocol.Inspected{Votes: true, Rest: rest}
	for name, c := range map[string]struct {
		masters [3]*protocol.Inspected
		holder  string // empty: none is known
	}{
		"it holds":                             {[3]*protocol.Inspected{holds, holds, over}, "holds"},
		"one waits and one does not answer":    {[3]*protocol.Inspected{waits, nil, holds}, ""},
		"two wait":                             {[3]*protocol.Inspected{waits, waits, holds}, ""},
		"it is over":                           {[3]*protocol.Inspected{over, over, over}, "rests"},
		"it is over, and one waits":            {[3]*protocol.Inspected{over, over, {Rest: rest}}, "rests"},
		"it is over, and one does not answer":  {[3]*protocol.Inspected{over, over, nil}, "rests"},
		"one was not released yet":             {[3]*protocol.Inspected{over, over, holds}, "rests"},
		"two wait, and it may be over":         {[3]*protocol.Inspected{{Rest: rest}, {Rest: rest}, over}, ""},
		"one waits, and one was not released":  {[3]*protocol.Inspected{{Rest: rest}, over, holds}, ""},
		"it holds, and one master is to count": {[3]*protocol.Inspected{holds, holds, nil}, "holds"},
	} {
		replies := make([]protocol.Reply, len(c.masters))
		for i, m := range c.masters {
			replies[i].Inspected = m
		}
		in := Inspection{Quorum: 2}
		in.read(replies)
		got := ""
		for _, h := range in.Holders {
			if got = "holds"; h.Resting {
				got = "rests"
			}
		}
		if got != c.holder || in.Free {
			t.Errorf("%s: %+v, free: %v; want %q", name, in.Holders, in.Free, c.holder)
		}
	}
}
