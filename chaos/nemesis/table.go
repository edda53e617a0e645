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

// floor is the least availability while a quorum of masters is healthy. Nemeses without one change clocks, which takes a master away for longer
// than its fault lasts, leave no quorum, or were not measured.
const floor = 0.95

// Table returns all nemeses, in the order of docs/chaos.md.
func Table() []Nemesis {
	return []Nemesis{
		{Name: "kill-minority", Does: "kills a minority of the masters (SIGKILL) and starts them again at once", Promises: both, Floor: floor, strike: killMinority},
		{Name: "kill-majority", Does: "kills a majority of the masters, or all, and starts them again", Promises: both, strike: killMajority},
		{Name: "cut-power", Does: "cuts the power of a master: what was not fsynced is lost", Promises: both, Needs: Need{EverySec: true}, Floor: floor, strike: powerLoss},
		{Name: "wipe-minority", Does: "kills a minority of the masters and empties their data directories", Promises: both, Floor: floor, strike: wipeMinority},
		{Name: "wipe-majority", Does: "empties a majority of the masters, or all; tokens then rest on the masters' clocks alone, and no clock is wrong until they vote again", Promises: both, strike: wipeMajority},
		{Name: "stall-disk", Does: "stalls a master's disk, then kills it", Promises: both, Needs: Need{Clocks: true, Files: true}, Floor: floor, strike: stallAndKill},
		{Name: "freeze-masters", Does: "freezes masters (SIGSTOP) for 10 ms to 3 TTLs", Promises: both, Floor: floor, strike: freezeMasters},
		{Name: "freeze-client", Does: "freezes a client (SIGSTOP) wherever it is, for up to 3 TTLs", Promises: both, Floor: floor, strike: freezeClient},
		{Name: "kill-client", Does: "kills a client (SIGKILL) wherever it is, and starts another; nobody releases what it held", Promises: both, Floor: floor, strike: killClient},
		{Name: "partition", Does: "cuts clients off masters: one, a minority, a majority, a ring, one way only, one client only", Promises: both, Floor: floor, strike: partition},
		{Name: "reorder", Does: "delays messages, and holds single commands back until later ones were executed", Promises: both, Floor: floor, strike: reorder},
		{Name: "cut-replies", Does: "resets connections after commands were executed and before their replies", Promises: both, Floor: floor, strike: cutReplies},
		{Name: "slow-replies", Does: "makes a master answer just within the time a client waits for it", Promises: both, Floor: floor, strike: slow},
		{Name: "step-clock", Does: "steps the clock of one master, by 11 ms to 288 s, forward or back", Promises: tokens, Needs: Need{Clocks: true}, strike: stepOne},
		{Name: "step-quorum", Does: "steps the clocks of a quorum of masters", Promises: tokens, Needs: Need{Clocks: true}, strike: stepQuorum},
		{Name: "skew-clocks", Does: "makes masters' clocks run at 0.5 to 2 times their rate", Promises: tokens, Needs: Need{Clocks: true}, strike: skew},
		{Name: "suspend-client", Does: "suspends a client's host", Promises: tokens, Elsewhere: "a program cannot stop its host's CLOCK_MONOTONIC, which Go's timers run on: --driver sim has it"},
		{Name: "flush-data", Does: "empties or swaps a minority's data sets under the running process", Promises: both, Floor: floor, strike: flush},
		{Name: "delete-lock", Does: "deletes or renames locks on a master", Promises: tokens, Floor: floor, strike: deleteLock},
		{Name: "fill-memory", Does: "lets a master's memory run full, without eviction", Promises: both, Floor: floor, strike: fill},
		{Name: "change-policy", Does: "gives a minority of the masters a maxmemory-policy that evicts, for a while, and opens a client meanwhile, which must not mind", Promises: both, Needs: Need{Own: true}, Floor: floor, strike: changePolicy},
		{Name: "fail-over", Does: "makes a master a replica and a master again, or fails it over to a replica", Promises: both, Floor: floor, strike: failOver},
		{Name: "administer", Does: "flushes scripts, pauses and kills connections, keeps a master busy with a script", Promises: both, Floor: floor, strike: administer},
		{Name: "rolling-upgrade", Does: "replaces a client by one of another build of this library, or back, as a rolling upgrade does", Promises: both, Needs: Need{Other: true}, strike: upgrade},
		{Name: "upgrade-server", Does: "replaces a master's server by one of another version, on its data if that version can read it", Promises: both, Needs: Need{Servers: true}, strike: upgradeServer},
		{Name: "misconfigure", Does: "opens clients with another list of masters, or one master twice, which must be refused", Promises: both, Needs: Need{Own: true}, Floor: floor, strike: misconfigure},
		{Name: "restore-copy", Does: "restores a master from a copy some TTLs old", Promises: both, Floor: floor, Needs: Need{Forgetful: true}, strike: rollBack},
		{Name: "waiter-storm", Does: "lets loose many more waiters on the hot lock", Promises: both, Floor: floor, strike: storm},
		{Name: "three-at-once", Does: "does three of the others at once", Promises: tokens, strike: everything},
	}
}

// Parse reads a list such as "kill-minority,partition". It also reads "all": every nemesis that this run can have; and "default": those of
// them under which both exclusion and tokens are promised. lacks says why
// the run cannot have a nemesis. The error says which name is wrong and why.
func Parse(s string, lacks func(Nemesis) string) ([]Nemesis, error) {
	if s == "all" || s == "default" {
		return slices.DeleteFunc(Table(), func(n Nemesis) bool {
			return lacks(n) != "" || s == "default" && n.Promises != both
		}), nil
	}
	var ns []Nemesis
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		name, _ := history.NemesisName(word)
		i := slices.IndexFunc(Table(), func(n Nemesis) bool { return n.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no nemesis %q: want default, all, or some of the names that redlock-bench chaos list shows", word)
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
