// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/chaos/history"
)

var (
	both   = history.Promises{Exclusion: true, Tokens: true}
	tokens = history.Promises{Tokens: true}
)

// Table is all nemeses, in the order of docs/safety.md 5.6.
func Table() []Nemesis {
	return []Nemesis{
		{Name: "N1", Does: "kills a minority of the masters (SIGKILL) and starts them again at once", Promises: both, strike: killMinority},
		{Name: "N2", Does: "kills a majority of the masters, or all, and starts them again", Promises: both, strike: killMajority},
		{Name: "N3", Does: "cuts the power of a master: what was not fsynced is lost", Promises: both, Needs: Need{EverySec: true}, strike: powerLoss},
		{Name: "N4", Does: "kills a minority of the masters and empties their data directories", Promises: both, strike: wipeMinority},
		{Name: "N5", Does: "empties a majority of the masters, or all; tokens then rest on the clients' clocks alone", Promises: both, strike: wipeMajority},
		{Name: "N6", Does: "stalls a master's disk, then kills it", Promises: both, Needs: Need{Clocks: true, Files: true}, strike: stallAndKill},
		{Name: "N7", Does: "freezes masters (SIGSTOP) for 10 ms to 3 TTLs", Promises: both, strike: freezeMasters},
		{Name: "N8", Does: "freezes a client (SIGSTOP) wherever it is, for up to 3 TTLs", Promises: both, strike: freezeClient},
		{Name: "N9", Does: "cuts clients off masters: one, a minority, a majority, a ring, one way only, one client only", Promises: both, strike: partition},
		{Name: "N10", Does: "delays messages, and holds single commands back until later ones were executed", Promises: both, strike: reorder},
		{Name: "N11", Does: "resets connections after commands were executed and before their replies", Promises: both, strike: cutReplies},
		{Name: "N12", Does: "makes a master answer just within the time a client waits for it", Promises: both, strike: slow},
		{Name: "N13", Does: "steps the clock of one master, by 11 ms to 288 s, forward or back", Promises: tokens, Needs: Need{Clocks: true}, strike: stepOne},
		{Name: "N14", Does: "steps the clocks of a quorum of masters", Promises: tokens, Needs: Need{Clocks: true}, strike: stepQuorum},
		{Name: "N15", Does: "makes masters' clocks run at 0.5 to 2 times their rate", Promises: tokens, Needs: Need{Clocks: true}, strike: skew},
		{Name: "N16", Does: "suspends a client's host", Promises: tokens, Elsewhere: "a program cannot stop its host's CLOCK_MONOTONIC, which Go's timers run on: --driver sim has it"},
		{Name: "N17", Does: "empties or swaps a minority's data sets under the running process", Promises: both, strike: flush},
		{Name: "N17-del", Does: "deletes or renames locks on a master", Promises: tokens, strike: deleteLock},
		{Name: "N18", Does: "lets a master's memory run full, without eviction", Promises: both, strike: fill},
		{Name: "N19", Does: "makes a master a replica and a master again, or fails it over to a replica", Promises: both, strike: failOver},
		{Name: "N20", Does: "flushes scripts, pauses and kills connections, keeps a master busy with a script", Promises: both, strike: administer},
		{Name: "N21", Does: "replaces a client by one of another build of this library, or back, as a rolling upgrade does", Promises: both, Needs: Need{Other: true}, strike: upgrade},
		{Name: "N22", Does: "opens clients with another list of masters, or one master twice, which must be refused", Promises: both, strike: misconfigure},
		{Name: "N23", Does: "restores a master from a copy some TTLs old", Promises: both, Needs: Need{Forgetful: true}, strike: rollBack},
		{Name: "N24", Does: "lets loose many more waiters on the hot lock", Promises: both, strike: storm},
		{Name: "N25", Does: "does three of the others at once", Promises: tokens, strike: everything},
	}
}

// Parse reads "N1,N7", "all" (everything that this persistence and harness can do) or "default" (of these, what must break neither
// exclusion nor tokens). An error names what is wrong with which name.
func Parse(s string, lacks func(Nemesis) string) ([]Nemesis, error) {
	if s == "all" || s == "default" {
		return slices.DeleteFunc(Table(), func(n Nemesis) bool {
			return lacks(n) != "" || s == "default" && n.Promises != both
		}), nil
	}
	var ns []Nemesis
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		i := slices.IndexFunc(Table(), func(n Nemesis) bool { return strings.EqualFold(n.Name, word) })
		if i < 0 {
			return nil, fmt.Errorf("no nemesis %q: want default, all, or some of N1 to N25, as redlock-bench chaos list shows them", word)
		}
		n := Table()[i]
		if why := lacks(n); why != "" {
			return nil, fmt.Errorf("nemesis %s cannot be had here: %s", n.Name, why)
		}
		if slices.ContainsFunc(ns, func(o Nemesis) bool { return o.Name == n.Name }) {
			return nil, fmt.Errorf("nemesis %s is named twice", n.Name)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

// Promised is what must hold when all of these may strike.
func Promised(ns []Nemesis) history.Promises {
	p := both
	for _, n := range ns {
		p.Exclusion = p.Exclusion && n.Promises.Exclusion
		p.Tokens = p.Tokens && n.Promises.Tokens
	}
	return p
}
