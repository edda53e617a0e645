// SPDX-License-Identifier: Apache-2.0

//go:build !mutants

package mutants

// The switches, all off for good.
const (
	SameHolder      = false
	NoElapsedCheck  = false
	NoQuarantine    = false
	RelearnFirst    = false
	LibraryRetries  = false
	NoDrift         = false
	ReleaseOnCaller = false
	NoDebt          = false
	NoWriteBack     = false
	ExtendMinority  = false
	NoFence         = false
	NoClockWatch    = false
	NoClockNote     = false
	NoEpoch         = false
	NoUnlock        = false
	KeepDebts       = false
	NoUnread        = false
	ReaderRepeats   = false
	NoSight         = false
	NoChangeWait    = false
	NoNotice        = false
	HandOnArrival   = false
	KeepPlaces      = false
	HandDoubted     = false
	EvictionUnseen  = false
	LateHands       = false
)

// Those of what stands on the lock.
const (
	LeadsOn        = false
	SameLeader     = false
	PermitReenters = false
	TurnApart      = false
	GiverGoesOn    = false
	RestLifted     = false
	NoSecondRead   = false
	SharedQueue    = false
	KeepMembers    = false
	MembersApart   = false
)
