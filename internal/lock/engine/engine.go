// SPDX-License-Identifier: Apache-2.0

// Package engine has the key of the door through which the packages of this module that stand on the lock reach what is not for its users: see
// redlock.Engine. A user's program cannot name the key, and so cannot call it.
package engine

// Key opens redlock.Engine.
type Key struct{ _ struct{} }

// LeaseKey is the context key of the innermost lease. See redlock.LeaseFrom.
type LeaseKey struct{}
