// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/page"
)

// broken says what it means that a checker found something.
var broken = map[string]string{
	"assumptions":     "The recorded history cannot be true, so nothing in it was judged.",
	"exclusion":       "Two clients believed that they held the same lock at the same time.",
	"tokens":          "A fencing token was issued twice, or went back.",
	"fenced-register": "The register that checks tokens lost an update, or let a late writer in.",
	"linearizable":    "No single lock could have given these answers.",
	"counters":        "A master’s fencing counter went back unnoticed.",
	"healed":          "After the last fault a lock stayed unavailable, or a key stayed for ever.",
	"effort":          "The run did too little to show anything.",
	"left-behind":     "A vote, or a client’s sign of life, was left on a master for longer than anybody needed it.",
	"signals":         "A holder was not told in time that its lease was over, or was told so without a reason.",
	"queue-order":     "A call that waited in a queue was passed by many that came later.",
	"availability":    "A free lock could too seldom be taken while a quorum of masters was healthy.",
	"resources":       "The heap of a client grew, or a goroutine of it was left when it had closed.",
	"refusals":        "A client with wrong settings was granted a lock.",
	"harness":         "The run did not come to its end as it should: a part of it crashed, hung or failed.",
}

// kept says what it means that it found nothing.
var kept = map[string]string{
	"exclusion":       "No two clients ever believed that they held the same lock at the same time.",
	"tokens":          "Every fencing token was new, and larger than all before it.",
	"fenced-register": "The register that checks tokens lost nothing.",
	"healed":          "After the last fault every lock could be taken again.",
}

const usualIntro = "Several clients took and released the same locks, over and over, while masters were killed, cut off or slowed down on purpose. " +
	"Every call was written down with the time it was made and the time it returned, on one clock. This page shows what happened, and what a set of " +
	"independent checkers says of it."

// judgement is the head of the report: the answer first, in words that need no code.
func judgement(rs []check.Result) page.Verdict {
	v := page.Verdict{Class: "ok", Head: "Every promise was kept"}
	if len(rs) == 0 {
		return page.Verdict{Class: "unknown", Head: "Nothing was judged"}
	}
	proves := true
	for _, r := range rs {
		switch {
		case r.Promised && r.Verdict == check.Illegal && r.ID != "effort":
			v.Class = "illegal"
			v.Lines = append(v.Lines, broken[r.ID])
		case r.Promised && r.Verdict != check.Ok:
			proves = false
		}
	}
	switch {
	case v.Class == "illegal":
		v.Head = "A promise was broken"
		return v
	case !proves:
		v.Class, v.Head = "unknown", "This run proves nothing"
	}
	var aside []string
	for _, r := range rs {
		switch {
		case r.Promised && r.Verdict == check.Ok && v.Class == "ok" && kept[r.ID] != "":
			v.Lines = append(v.Lines, kept[r.ID]+notJudged(r))
		case r.Promised && r.Verdict == check.Unknown:
			v.Lines = append(v.Lines, fmt.Sprintf("Not decided (%s): %s", r.ID, r.Summary))
		case r.Promised && r.Verdict == check.Illegal:
			v.Lines = append(v.Lines, broken[r.ID])
		case !r.Promised && r.Verdict == check.Illegal:
			aside = append(aside, "Not promised under the faults of this run, and it did happen: "+broken[r.ID])
		}
	}
	if len(aside) > 0 && v.Class == "ok" {
		v.Head = "What was promised was kept"
	}
	v.Lines = append(v.Lines, aside...)
	return v
}

// notJudged says for how long a check was suspended, and what it found in that time; "" if it was not suspended.
func notJudged(r check.Result) string {
	if r.Suspended.Time == 0 {
		return ""
	}
	return fmt.Sprintf(" Faults that may break this promise suspended the check for %v. Overlaps in that time: %d.", r.Suspended, len(r.NotJudged))
}

func verdictWord(r check.Result) string {
	word := map[check.Verdict]string{check.Ok: "kept", check.Illegal: "broken", check.Unknown: "not decided"}[r.Verdict]
	switch {
	case r.ID == "unfenced-register":
		return "counted"
	case r.ID == "effort" && r.Verdict == check.Illegal:
		return "too little"
	}
	if !r.Promised {
		word += ", not promised"
	}
	return word
}

func title(h *history.History) string {
	return fmt.Sprintf("Chaos run %d: %d masters (%s)", h.Header.Seed, h.Header.Masters, h.Header.Driver)
}

// nemeses says in a few words what each nemesis does. docs/chaos.md says more.
var nemeses = map[string]string{
	"kill-minority": "kill a minority of the masters", "kill-majority": "kill a majority of the masters", "cut-power": "kill, losing what was not on disk",
	"wipe-minority": "kill, losing all data", "wipe-majority": "lose the data of a majority", "stall-disk": "stall the disk, then kill",
	"freeze-masters": "stop a master for a while", "freeze-client": "stop a client for a while", "kill-client": "kill a client", "partition": "cut clients off from masters",
	"reorder": "delay or reorder messages", "cut-replies": "execute, but lose the reply", "slow-replies": "a master almost too slow",
	"step-clock": "step the clock of a master", "step-quorum": "step the clocks of a majority", "skew-clocks": "a master’s clock too fast or slow",
	"suspend-client": "suspend a client and its clock", "flush-data": "empty or swap data sets", "delete-lock": "delete locks by hand", "fill-memory": "fill the memory of a master",
	"change-policy": "let masters evict keys",
	"fail-over":     "make a master a replica", "administer": "block or disconnect clients", "rolling-upgrade": "replace clients by another version’s",
	"upgrade-server": "replace a server by another version’s",
	"misconfigure":   "different lists of masters", "restore-copy": "restore an old backup", "waiter-storm": "very many clients or locks",
	"three-at-once": "everything at once, at random",
}

func nemesisOrder[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), history.CompareNemeses)
}
