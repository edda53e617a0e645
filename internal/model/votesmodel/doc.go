// SPDX-License-Identifier: Apache-2.0

// Package votesmodel says what the scripts that ship do to one lock on one master: which reply each op gets, which
// messages are published, and which keys are there afterwards. It is docs/internals/handoff.md, in the requests and replies of package protocol.
//
//   - [Master] is exact: votes.lua with all its acts, and what extend.lua, confirm.lua, adopt.lua, signs of life and
//     Dequeue do to the lock and its rest. Time stands still between calls unless the caller moves it.
//   - Short are all shortest runs to every state within some steps, and Paths long random runs.
//   - Replay holds a real master against a run, step by step: replies, messages and keys.
//
// It is one link of a chain. The worlds of package handoffmodel are explored exhaustively; every call of Master on
// a plain lock is a step of theirs (handoffmodel's TestMaster_everyOp_isAStepOfTheWorld); and the scripts on a redis-server do what Master
// does (TestScripts_onRedis_asTheModel). The tests change the scripts in many ways, and the replay finds each
// (TestScripts_broken_diverge).
//
// Not modelled: tickets that a master gives (ticket 0), places of earlier builds, readers of Redisson's, errors of Redis,
// top-up, hold counts above 1, and the counters of several locks in one call. Package nodetest compares those with a real
// master, or runs them. A release looks at 16 readers, and at all if there are no more: the runs have fewer.
// Only tests make runs and replay them, so both are in test files. Nothing here starts a goroutine, and a Master may not be shared between goroutines.
package votesmodel
