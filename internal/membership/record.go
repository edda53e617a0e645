// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Names of the fields of a record, beside the counters c0, c1 and so on.
const (
	FieldState  = "state"
	FieldIntent = "intent"
	FieldPlan   = "plan"   // of X: the plan of its ballot; of V: the plan by which its epoch began, if a change began it
	FieldTerms  = "epoch"  // the text of the terms of the record state's epoch
	FieldBefore = "before" // of R: the text of the terms of another list whose locks may live on, if it has to be waited for
	FieldClock  = "note"   // the clock note
	FieldTarget = "target" // during a change, until it is cancelled, also of R that it prepared: the text of the terms of its target
	FieldURLs   = "urls"   // likewise: both lists of URLs without passwords, as the driver gives them
	FieldSince  = "since"  // of R: its stamp
	FieldUnused = "unused" // of R: its nonce, if Init set it on the word that nothing was ever locked, and no record said otherwise
	FieldLatest = "latest" // the largest proposed token that the master takes without asking for its TIME: kept by the scripts, and removed by a quarantine
	FieldOver   = "over"   // of X: the ballot of the change when it was finished, so that clients of the old list are told
)

// Plan is what a ballot proposes: from which epoch to which, and which quarantined masters begin at once. Its text is
// ballot|from|target|nonces. A plan without a target cancels: nothing is changed. A plan from an epoch to itself is an
// Init's.
type Plan struct {
	Ballot       Ballot
	From, Target Epoch
	// Begin has the nonce of each master of the target's list, in the order of the sorted names. It is 0 for a
	// master that is in both lists.
	Begin []Nonce
}

// String of the zero Plan is empty.
func (p Plan) String() string {
	if p.Ballot == (Ballot{}) {
		return ""
	}
	target, nonces := "-", make([]string, len(p.Begin))
	if p.Target != (Epoch{}) {
		target = p.Target.String()
	}
	for i, n := range p.Begin {
		if nonces[i] = "-"; n != 0 {
			nonces[i] = n.String()
		}
	}
	return p.Ballot.String() + "|" + p.From.String() + "|" + target + "|" + strings.Join(nonces, ",")
}

// plan is the inverse of String, for a plan that is there.
func (t *text) plan() Plan {
	p := Plan{Ballot: t.ballot(), From: t.epoch()}
	if len(t.parts) > 0 && t.parts[0] == "-" {
		t.next()
	} else {
		p.Target = t.epoch()
	}
	if begin := t.next(); begin != "" {
		nonces := text{parts: strings.Split(begin, ",")}
		for _, word := range nonces.parts {
			n := Nonce(0)
			if word == "-" {
				nonces.next()
			} else {
				n = nonces.nonce()
			}
			p.Begin = append(p.Begin, n)
		}
		t.check(!nonces.wrong)
	}
	return p
}

// ParsePlan is the inverse of String.
func ParsePlan(s string) (Plan, error) {
	if s == "" {
		return Plan{}, nil
	}
	t := text{parts: strings.Split(s, "|")}
	p := t.plan()
	if t.wrong || p.String() != s {
		return Plan{}, bad("its plan", s)
	}
	return p, nil
}

// sameChange: both plans lead to the same epoch with the same masters.
func (p Plan) sameChange(o Plan) bool {
	return p.From == o.From && p.Target == o.Target && slices.Equal(p.Begin, o.Begin)
}

// Intent is the promise of a master: it takes part in no plan of a smaller ballot. Its text is that of the plan, and
// |since|who. The zero Intent, whose text is empty, promises nothing.
type Intent struct {
	Plan
	Since int64  // in seconds of the proposing client's time of day
	Who   string // the proposing process, for people
}

func (n Intent) String() string {
	if n.Ballot == (Ballot{}) {
		return ""
	}
	return n.Plan.String() + "|" + strconv.FormatInt(n.Since, 10) + "|" + url.PathEscape(n.Who)
}

// ParseIntent is the inverse of String.
func ParseIntent(s string) (Intent, error) {
	if s == "" {
		return Intent{}, nil
	}
	t := text{parts: strings.Split(s, "|")}
	n := Intent{Plan: t.plan(), Since: t.number()}
	who, err := url.PathUnescape(t.next())
	if n.Who = who; t.wrong || err != nil || n.String() != s {
		return Intent{}, bad("its intent", s)
	}
	return n, nil
}

// Head is what a compare-and-set compares, and sets: the texts of both fields.
type Head struct {
	State  RecordState
	Intent Intent
}

// Record is what was read from a master. Its zero value is that of a master without a record.
type Record struct {
	Head
	Plan     Plan
	Terms    *Terms // of the state's epoch, nil when there are none
	Before   *Terms // of a list whose locks may live on
	Target   string
	URLs     string
	Over     string
	Stamp    Stamp // of the record state that stands
	Unused   bool  // the record state was set on the word that nothing was ever locked, which was believed
	Clock    Note
	Counters bool // the read found counters
}

// ParseRecord reads the fields of the hash. Fields that it does not know are left alone.
func ParseRecord(fields map[string]string) (Record, error) {
	var r Record
	var err error
	if r.State, err = ParseRecordState(fields[FieldState]); err != nil {
		return Record{}, err
	}
	if r.Intent, err = ParseIntent(fields[FieldIntent]); err != nil {
		return Record{}, err
	}
	if r.Plan, err = ParsePlan(fields[FieldPlan]); err != nil {
		return Record{}, err
	}
	if r.Clock, err = ParseNote(fields[FieldClock]); err != nil {
		return Record{}, err
	}
	for field, terms := range map[string]**Terms{FieldTerms: &r.Terms, FieldBefore: &r.Before} {
		if text := fields[field]; text != "" {
			if *terms, err = ParseTerms(text); err != nil {
				return Record{}, err
			}
		}
	}
	r.Target, r.URLs, r.Over = fields[FieldTarget], fields[FieldURLs], fields[FieldOver]
	if r.Stamp, err = ParseStamp(fields[FieldSince]); err != nil {
		return Record{}, err
	}
	if r.State.Phase != Quarantined || r.Stamp.Nonce != r.State.Nonce {
		r.Stamp = Stamp{}
	}
	// What is left of another record state has the nonce of that one.
	r.Unused = r.State.Phase == Quarantined && fields[FieldUnused] == r.State.Nonce.String()
	for f := range fields {
		if n, isCounter := strings.CutPrefix(f, "c"); isCounter && n != "" && n[0] >= '0' && n[0] <= '9' {
			r.Counters = true
		}
	}
	return r, nil
}
