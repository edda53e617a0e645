// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package wire

import (
	"strings"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/node/lua"
)

// Defences that are Lua: while a switch is on, its script is sent without them.
func init() {
	breakScript(&mutants.NoOwnerCheck, &confirmSHA, lua.Source("confirm"), "-- confirm.lua, without its owner check",
		"if call('hexists', lock, holder) == 0 then\n  return 0\nend\n", "")
	breakScript(&mutants.ReaderRepeats, &confirmSHA, lua.Source("confirm"), "-- confirm.lua, which counts for readers where it did not raise",
		"elseif mode == 'r' then", "elseif false then")
	breakScript(&mutants.ExtendCreates, &extendSHA, lua.Source("extend"), "-- extend.lua, which creates votes",
		"  local held = call('hexists', lock, holder)\n",
		"  if call('exists', lock) == 0 then call('hset', lock, holder, '1') end\n"+
			"  local held = call('hexists', lock, holder)\n")
	votes := func(on *bool, title, defence, instead string) {
		breakScript(on, &votesSHA, lua.Source("votes"), "-- votes.lua, "+title, defence, instead)
	}
	votes(&mutants.UndatedAnswer, "which does not renew a vote that it finds", "        call('pexpire', lock, ttl)\n", "")
	votes(&mutants.AgainQueues, "which creates a place for a holder that asks again",
		"if act == 'again' and not call('zscore', queue, place) then", "if false then")
	votes(&mutants.HandAnyState, "which hands in any record state", "found and not refusal, lifted", "found, lifted")
	votes(&mutants.OldPlaces, "which keeps places of other record states",
		"given and not (fits and (state_of(first) or state) ~= state)", "given")
	votes(&mutants.LongHand, "which hands votes of 30 s", "local ttl, left, count, timeout = ARGV[2],", "local ttl, left, count, timeout = 10 * ARGV[2],")
	votes(&mutants.HandHeld, "which hands a lock that is not free", "fits and free and", "fits and")
	mutants.OnSet(func() { votesCall = votesSHA })
}

// breakScript replaces defence in the script while on is set. If the script does not contain the defence exactly once, breakScript
// panics: the mutant would be the same as the lock.
func breakScript(on *bool, sha *string, source, title, defence, instead string) {
	if strings.Count(source, defence) != 1 {
		panic("mutants: no such defence: " + title)
	}
	sound, broken := *sha, register(title+"\n"+strings.Replace(source, defence, instead, 1))
	mutants.OnSet(func() {
		if *on {
			*sha = broken
		} else if *sha == broken { // and not that of another mutant
			*sha = sound
		}
	})
}
