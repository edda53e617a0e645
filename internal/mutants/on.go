// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package mutants

import (
	"fmt"
	"maps"
	"slices"
)

// The switches. They are read without a lock: see Set.
var (
	SameHolder      bool // a client uses one holder id for all its attempts
	NoElapsedCheck  bool // validity counts from the replies, not from before the requests
	NoOwnerCheck    bool // confirm.lua raises the counter without a look at who holds the vote
	NoQuarantine    bool // a master that lost its data votes at once
	RelearnFirst    bool // a master that lost its data reads its counters before the quarantine, not after
	ExtendCreates   bool // extend.lua creates a vote if there is none
	LibraryRetries  bool // go-redis sends a pipeline again after its connection broke
	NoDrift         bool // validity is not shortened by the drift
	ReleaseOnCaller bool // the release of a failed attempt ends with the caller's context
	NoDebt          bool // a release that was not acknowledged is not sent again
	NoWriteBack     bool // a token is granted before a quorum has its counter
	ExtendMinority  bool // one vote is enough for an extend
	NoFence         bool // a broken connection is not killed before releases are sent again
	NoClockWatch    bool // the vote of a master counts although its clock jumped
	NoClockNote     bool // clock notes are ignored
	NoEpoch         bool // clients with different lists of masters are not refused
	NoUnlock        bool // Unlock sends nothing
	KeepDebts       bool // a release that the master acknowledged is kept and sent again
	NoUnread        bool // a release ends with its TTL although its acquire may lie unread in a frozen master
	ReaderRepeats   bool // confirm.lua also counts where it did not raise the counter for a reader
	NoSight         bool // a client claims empty masters for a list that it did not see vote
	NoChangeWait    bool // a change of masters does not wait for the locks of the old list
	NoNotice        bool // the context of a lease does not end by itself when its validity is over
	HandOnArrival   bool // a handed vote counts from the arrival of its message, not from the stamp in it (H1)
	UndatedAnswer   bool // an acquire that finds its vote does not renew it, and the client counts a full TTL (H3)
	KeepPlaces      bool // a waiter that gives up gives back votes, and no places (H4)
	AgainQueues     bool // an acquire that asks again creates a place (H7)
	HandAnyState    bool // a master hands whatever its record says (H9)
	OldPlaces       bool // a place outlives the record state that it was taken in (H10)
	LongHand        bool // a handed vote lives for 30 s (H12)
	HandHeld        bool // a release hands a lock that is not free (H16)
	HandDoubted     bool // a vote that its client has not seen, or does not believe, is handed on (H17)
	EvictionUnseen  bool // a master that evicted keys goes on voting
	LateHands       bool // a handed lease counts the votes whose messages came before the grant, and no others
	RestUnseen      bool // an acquire does not look whether the lock rests
	SameToken       bool // an adopter has the giver's token
)

var switches = map[string]*bool{
	"same-holder":            &SameHolder,
	"no-elapsed-check":       &NoElapsedCheck,
	"no-owner-check":         &NoOwnerCheck,
	"no-quarantine":          &NoQuarantine,
	"relearn-first":          &RelearnFirst,
	"extend-creates":         &ExtendCreates,
	"library-retries":        &LibraryRetries,
	"no-drift":               &NoDrift,
	"release-on-caller":      &ReleaseOnCaller,
	"no-debt":                &NoDebt,
	"no-write-back":          &NoWriteBack,
	"extend-minority":        &ExtendMinority,
	"no-fence":               &NoFence,
	"no-clock-watch":         &NoClockWatch,
	"no-clock-note":          &NoClockNote,
	"no-epoch":               &NoEpoch,
	"no-unlock":              &NoUnlock,
	"keep-debts":             &KeepDebts,
	"no-unread":              &NoUnread,
	"reader-repeats":         &ReaderRepeats,
	"no-sight":               &NoSight,
	"no-change-wait":         &NoChangeWait,
	"no-notice":              &NoNotice,
	"hand-on-arrival":        &HandOnArrival,
	"undated-answer":         &UndatedAnswer,
	"keep-places":            &KeepPlaces,
	"again-queues":           &AgainQueues,
	"hand-any-state":         &HandAnyState,
	"old-places":             &OldPlaces,
	"long-hand":              &LongHand,
	"hand-held":              &HandHeld,
	"hand-doubted":           &HandDoubted,
	"eviction-not-seen":      &EvictionUnseen,
	"late-hands-not-counted": &LateHands,
	"rest-not-looked-at":     &RestUnseen,
	"adopter-keeps-token":    &SameToken,
}

// Names returns the names of the switches of the lock, sorted. Those of what stands on it are Features.
func Names() []string { return slices.Sorted(maps.Keys(switches)) }

var hooks []func()

// Set turns the switch called name on and all others off; "" turns all off. No client may be open meanwhile. If no switch has the
// name, Set returns an error and changes nothing.
func Set(name string) error {
	if name != "" && switches[name] == nil && features[name] == nil {
		return fmt.Errorf("mutants: no switch %q", name)
	}
	for _, of := range []map[string]*bool{switches, features} {
		for n, on := range of {
			*on = n == name
		}
	}
	for _, f := range hooks {
		f()
	}
	return nil
}

// OnSet registers f, which each Set calls at its end. It is for init functions: they take away defences that are not Go code.
func OnSet(f func()) { hooks = append(hooks, f) }
