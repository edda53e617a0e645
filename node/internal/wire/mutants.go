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
		"  local held = redis.pcall('hexists', lock, holder)\n",
		"  if call('exists', lock) == 0 then call('hset', lock, holder, '1') end\n"+
			"  local held = redis.pcall('hexists', lock, holder)\n")
	breakScript(&mutants.SameToken, &adoptSHA, lua.Source("adopt"), "-- adopt.lua, which does not raise the counter",
		"call('hset', record, counter, stored, 'latest', reach)", "token = tonumber(last)")
	votes := func(on *bool, title string, changes ...string) {
		breakScript(on, &votesSHA, lua.Source("votes"), "-- votes.lua, "+title, changes...)
	}
	votes(&mutants.UndatedAnswer, "which does not renew a vote that it finds", "        call('pexpire', lock, ttl)\n", "")
	votes(&mutants.AgainQueues, "which creates a place for a holder that asks again",
		"if not places and not call('zscore', queue, place) then", "if false then")
	votes(&mutants.HandAnyState, "which hands in any record state", "local fits = found and not refusal", "local fits = found")
	votes(&mutants.OldPlaces, "which keeps places of other record states",
		"given and not (fits and (state_of(first) or state) ~= state)", "given")
	votes(&mutants.LongHand, "which hands votes of 30 s", "'1', liveness, -2, false", "'1', 10 * liveness, -2, false",
		"given .. '\\0' .. liveness .. ", "given .. '\\0' .. 10 * liveness .. ")
	votes(&mutants.HandHeld, "which hands a lock that is not free", "fits and free and", "fits and")
	votes(&mutants.RestUnseen, "which does not look whether the lock rests",
		"if rester then\n    free,", "if false then\n    free,", "if not (refusal or found[3]) and", "if not refusal and",
		"idle = idle and not found[3]", "idle = idle and found", "and state_of(heir) and not (found[3] and call('exists', rest_key(queue)) == 1)", "and state_of(heir)")
	mutants.OnSet(func() { votesCall = votesSHA })
}

// breakScript changes the script while on is set. changes are pairs: a part of the script, and what stands there instead. If the script does
// not contain a part exactly once, breakScript panics: the mutant would be the same as the lock.
func breakScript(on *bool, sha *string, source, title string, changes ...string) {
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(source, changes[i]) != 1 {
			panic("mutants: no such defence: " + title)
		}
		source = strings.Replace(source, changes[i], changes[i+1], 1)
	}
	sound, broken := *sha, register(title+"\n"+source)
	mutants.OnSet(func() {
		if *on {
			*sha = broken
		} else if *sha == broken { // and not that of another mutant
			*sha = sound
		}
	})
}
