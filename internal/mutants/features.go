// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package mutants

import (
	"maps"
	"slices"
)

// The switches of what stands on the lock. TestFeatures_defenceRemoved_found of package redlock has a world in which each is found.
var (
	LeadsOn        bool // the context of a leader goes on when its lease is over
	SameLeader     bool // an observer of an election takes any two leaders for the same
	PermitReenters bool // a permit in the context is entered again, instead of another being taken
	TurnApart      bool // each process has a queue of its own for permits
	GiverGoesOn    bool // the lease of who transferred it goes on
	RestLifted     bool // an Unlock ends the minimum hold
	NoSecondRead   bool // a flight does not read again when it has the lock
	SharedQueue    bool // the queues of a namespace are outside of it
	KeepMembers    bool // a multi lock that is not had keeps what it took
	MembersApart   bool // a multi lock goes on when a member is lost
)

var features = map[string]*bool{
	"leads-on":        &LeadsOn,
	"same-leader":     &SameLeader,
	"permit-reenters": &PermitReenters,
	"turn-apart":      &TurnApart,
	"giver-goes-on":   &GiverGoesOn,
	"rest-lifted":     &RestLifted,
	"no-second-read":  &NoSecondRead,
	"shared-queue":    &SharedQueue,
	"keep-members":    &KeepMembers,
	"members-apart":   &MembersApart,
}

// Features returns the names of the switches of what stands on the lock, sorted.
func Features() []string { return slices.Sorted(maps.Keys(features)) }
