// SPDX-License-Identifier: Apache-2.0

// Package zoo shows that the chaos checkers notice: it takes one defence of the lock away at a time and runs the shortest schedule
// that needs it.
//
// Guarantee: a [Result] with Found means that the named checker called the history of such a run illegal, and Run has an error unless
// the same schedule with every defence in place kept all that is promised under its nemesis. Condition: the program is built with
// the tag zoo; without it only the schedules are there, for this package's tests, and no switch to turn.
//
// Runs happen in memory, on masters of package nodetest and on the time of testing/synctest, so hours of it cost milliseconds.
package zoo
