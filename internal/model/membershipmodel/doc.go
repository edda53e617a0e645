// SPDX-License-Identifier: Apache-2.0

// Package membershipmodel explores every order of steps in which package membership can be
// driven: processes that die, pause or read masters one by one, masters that lose data or
// restart, clocks that jump, and attempts that take, extend and top up leases.
//
// World says who takes part and which faults may happen how often. World.Check visits
// every state of a world and checks three invariants: exclusion, tokens that grow, and that a
// quorum votes again once faults end. docs/internals/membership.md, "What was explored", has the figures.
//
// To add a process, a fault or an invariant, change step_test.go, state_test.go or explore_test.go, and add a
// world to worlds_test.go. Only tests explore, so all but this comment is in test files.
package membershipmodel
