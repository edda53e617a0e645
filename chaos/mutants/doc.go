// SPDX-License-Identifier: Apache-2.0

// Package mutants tests the checkers of package check. A mutant is the lock without one of its defences. For each mutant there is a
// schedule: the shortest sequence of events that needs the missing defence. The schedule runs twice.
//
//   - With every defence in place it must break no promise. This is a regression test of the lock.
//   - Without the defence the named checker must report a violation. This is a test of the checker.
//
// Run does both. It needs a program that is built with the tag mutants. Without the tag this package holds the schedules only, and the
// lock cannot be changed.
//
// Schedules run in memory: the masters are those of package nodetest, and the time is that of testing/synctest. An hour of simulated
// time costs milliseconds.
package mutants
