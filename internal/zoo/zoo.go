// SPDX-License-Identifier: Apache-2.0

// Package zoo holds one switch for each defence of the lock that can be taken away, to see that the chaos checkers notice.
//
// Guarantee: a build without the tag zoo holds no unsafe path. There every switch is a constant false, so the compiler drops
// what stands behind it, and nothing can set one. Condition: code asks for a switch by its name alone, as in "if zoo.SameHolder".
//
// With the tag the switches are variables, and Set turns one on. What each takes away, and which checker finds it, is in
// docs/chaos.md, "Bug zoo".
package zoo
