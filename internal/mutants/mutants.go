// SPDX-License-Identifier: Apache-2.0

// Package mutants holds one switch for each defence of the lock that can be taken away. Package chaos/mutants turns them on, to test
// that the chaos checkers find the bug. docs/chaos.md, "Mutants", says what each switch takes away and which checker finds the bug.
//
// In a build without the tag mutants every switch is a constant false. The compiler then drops the code behind the switch, and no
// caller can turn it on. With the tag the switches are variables, and Set turns one on.
//
// Other code reads a switch by its name alone, as in "if mutants.SameHolder".
package mutants
