// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A lease whose settings passed can be renewed: its renewal is due before its
// holder would be told that it is lost.
func TestCheckLock_whatPasses_canBeRenewed(t *testing.T) {
	check := func(ttl, every uint32, factor, constant uint16) bool {
		s := defaults()
		s.drift.Factor, s.drift.Constant = float64(factor)/65536, time.Duration(constant)*time.Microsecond
		s.maxTTL = time.Hour
		l := &s.lock
		l.ttl = (time.Duration(ttl) * time.Microsecond).Truncate(time.Millisecond)
		if every%4 != 0 {
			l.renewSet, l.renewEvery = true, l.ttl-time.Duration(every%2_000_000)*time.Microsecond/10
		}
		if s.check() != nil {
			return true
		}
		return l.every() < s.drift.Validity(l.ttl, 0)-l.margin()
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 200_000}); err != nil {
		t.Error(err)
	}
}

func TestBallotSets_everyAnswer_releasedAndDequeuedWhereNeeded(t *testing.T) {
	replies := []protocol.Reply{{Outcome: protocol.Granted}, {Outcome: protocol.Held}, {}, {Outcome: protocol.NotSent}, {Outcome: protocol.Refused}, {Outcome: protocol.Absent}}
	for answered := range uint64(1 << len(replies)) {
		b := &quorumCall{ops: make([]protocol.Op, len(replies)), answered: answered}
		for i, r := range replies {
			b.ops[i].Reply = r
		}
		granted, maybe, silent := b.votes()
		queued, settled := b.queued()
		if granted != answered&1 || settled != granted || granted&queued != 0 || granted&^maybe != 0 {
			t.Errorf("answered %b: granted %b, maybe %b, queued %b, settled %b", answered, granted, maybe, queued, settled)
		}
		// A master that was asked and gave no definite answer may have a vote. One that
		// was not sent the acquire has none.
		if want := ^answered&(1<<len(replies)-1) | answered&0b101; maybe != want {
			t.Errorf("answered %b: maybe %b, want %b", answered, maybe, want)
		}
		if want := ^answered & (1<<len(replies) - 1); silent != want {
			t.Errorf("answered %b: silent %b, want %b", answered, silent, want)
		}
		if want := answered & 0b110110; queued != want {
			t.Errorf("answered %b: queued %b, want %b", answered, queued, want)
		}
	}
}
