// SPDX-License-Identifier: Apache-2.0

//go:build zoo

package zoo

import (
	"fmt"
	"maps"
	"slices"
)

// The switches. They are read without a lock: see Set.
var (
	SameHolder      bool // one holder id for all attempts of a client
	NoElapsedCheck  bool // validity counts from the replies, not from before the requests
	NoOwnerCheck    bool // confirm.lua raises the counter whoever holds the vote
	NoQuarantine    bool // a master that lost its data does not wait before it votes
	RelearnFirst    bool // it reads its counters before the wait, not after
	ExtendCreates   bool // extend.lua puts a vote where there is none
	LibraryRetries  bool // go-redis sends a pipeline again whose connection broke
	NoDrift         bool // validity allows for no drift
	ReleaseOnCaller bool // a failed attempt is given back on the caller's context
	NoDebt          bool // a release that was not acknowledged is forgotten
	NoWriteBack     bool // a token is granted that no quorum knows
	ExtendMinority  bool // one vote is enough for an extend
	NoFence         bool // a broken connection is not killed before releases are sent again
	NoClockWatch    bool // the vote of a master whose clock jumped counts
	NoClockNote     bool // clock notes accuse nobody
	NoEpoch         bool // clients with other lists of masters are let in
)

var switches = map[string]*bool{
	"same-holder":       &SameHolder,
	"no-elapsed-check":  &NoElapsedCheck,
	"no-owner-check":    &NoOwnerCheck,
	"no-quarantine":     &NoQuarantine,
	"relearn-first":     &RelearnFirst,
	"extend-creates":    &ExtendCreates,
	"library-retries":   &LibraryRetries,
	"no-drift":          &NoDrift,
	"release-on-caller": &ReleaseOnCaller,
	"no-debt":           &NoDebt,
	"no-write-back":     &NoWriteBack,
	"extend-minority":   &ExtendMinority,
	"no-fence":          &NoFence,
	"no-clock-watch":    &NoClockWatch,
	"no-clock-note":     &NoClockNote,
	"no-epoch":          &NoEpoch,
}

// Names are the switches there are, sorted.
func Names() []string { return slices.Sorted(maps.Keys(switches)) }

var hooks []func()

// Set turns the switch called name on and all others off; "" turns all off. No client may be open meanwhile. An unknown name is an
// error, and changes nothing.
func Set(name string) error {
	if name != "" && switches[name] == nil {
		return fmt.Errorf("zoo: no switch %q", name)
	}
	for n, on := range switches {
		*on = n == name
	}
	for _, f := range hooks {
		f()
	}
	return nil
}

// OnSet has f called at the end of each Set, for defences that are not Go code. It is for init functions.
func OnSet(f func()) { hooks = append(hooks, f) }
