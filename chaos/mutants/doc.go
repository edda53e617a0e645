// SPDX-License-Identifier: Apache-2.0

// Package mutants tests the checkers of package check. A mutant is the lock without one of its defences. For each mutant there is a
// schedule: the shortest sequence of events that needs the missing defence. The schedule runs twice.
//
//   - With every defence in place it must break no promise. This is a regression test of the lock.
//   - Without the defence the named checker must report a violation. This is a test of the checker.
//
// The second run needs the tag mutants: without it the lock cannot be changed. Only tests play schedules, so all but this comment is in test
// files.
//
// Schedules run in memory: the masters are those of package nodetest, and the time is that of testing/synctest. An hour of simulated
// time costs milliseconds.
package mutants
