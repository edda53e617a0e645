// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/history"
)

func TestLine_saysAllAndFitsATerminal(t *testing.T) {
	p := chaos.Progress{
		Elapsed: 12 * time.Second, Granted: 12345, Holder: "c2.13", Struck: 17, Faults: []string{"delete-lock", "partition", "restore-copy"},
		Votes: []history.Outcome{history.OK, history.Failed, history.Unknown, history.OK, history.OK},
	}
	if got, want := line(p, 30*time.Second), "12/30 s  12345 locks  hot: c2.13  +r.++  17 faults  delete-lock partition +1"; got != want || len(got) >= 80 {
		t.Errorf("%q, want %q", got, want)
	}
	p = chaos.Progress{Elapsed: 12 * time.Second, Struck: 17}
	if got, want := line(p, 30*time.Second), "12/30 s of simulated time  17 faults"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
