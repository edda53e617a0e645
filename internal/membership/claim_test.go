// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
)

// TestNext_neverLocked_onlyBelievedOfEmptyMasters: a claim says whether the word was believed, and a record of whatever
// phase and incarnation contradicts it.
func TestNext_neverLocked_onlyBelievedOfEmptyMasters(t *testing.T) {
	for masters, want := range map[string]bool{
		"- - -": true, "RA5u - -": true, "RA5 - -": false, "- oVA5 -": false, "- - oRA5": false, "RA4u RA5 -": false, "- - VA5": false,
	} {
		v, a := scene{goal: Init, masters: masters, whole: never, edit: neverLocked}.run(t)
		if a.Kind != Swap || a.Unused != want {
			t.Errorf("%s: %s, believed %v, want %v", masters, tell(v, a), a.Unused, want)
		}
		if fields := strings.Join(a.Fields(v, ""), " "); strings.Contains(fields, FieldUnused+" "+v.Nonce.String()) != want {
			t.Errorf("%s: it writes %s", masters, fields)
		}
	}
	s := scene{goal: Init, masters: "RA5u RA5 RA5u", whole: never, edit: neverLocked}
	if v, a := s.run(t); !strings.Contains(Explain(v, a), "the records contradict that nothing was ever locked") {
		t.Errorf("%q", Explain(v, a))
	}
}
