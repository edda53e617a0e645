// SPDX-License-Identifier: Apache-2.0

// Package said has what the command redlock says in words of its own: what run, elect and force-unlock tell while they work, and how
// commands end. What masters are in is said by internal/cause and internal/membership, and what is wrong with a flag stands where the
// flag is checked. A table of docs/messages.md is written from it.
package said

import (
	"fmt"
	"strings"
)

// Line is one message.
type Line struct {
	Name  string // of its variable, by which the table finds the tests that show it
	Text  string // words in braces are filled in
	Helps string // what to do; empty if nothing is wrong
}

// With returns the text with values in place of the words in braces, one after the other.
func (l *Line) With(values ...any) string {
	var b strings.Builder
	rest := l.Text
	for _, v := range values {
		before, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		b.WriteString(before)
		fmt.Fprint(&b, v)
		_, rest, _ = strings.Cut(after, "}")
	}
	b.WriteString(rest)
	return b.String()
}

// The messages, in the order of the table.
var (
	WaitsForMasters = Line{"WaitsForMasters", "waiting for masters: {why}", "what the reason says; the command begins by itself when a quorum votes"}
	WaitsForLock    = Line{"WaitsForLock", "waits for lock {lock}: {who}", "if that holder is stuck: redlock force-unlock"}
	CannotStart     = Line{"CannotStart", "cannot start a process: {error}", "what this host lacks: files, processes, memory; the lock was given back, exit code 126"}
	NotFound        = Line{"NotFound", "{command}: command not found", "correct the command, or PATH; no lock was taken, exit code 127"}
	NoInterpreter   = Line{"NoInterpreter", "{command}: the interpreter of its first line, or its loader, is not found",
		"correct its first line, or install what that names; nothing has run, and no period of --every is used up, exit code 127"}
	CannotRenew = Line{"CannotRenew", "the lease cannot be renewed: the command got SIGTERM", "see to the masters: redlock status; the command has a few moments to end"}
	LeaseEnds   = Line{"LeaseEnds", "the lease ends: the command was killed", "see to the masters: redlock status; a command that heeds SIGTERM ends in order"}
	LeaseLost   = Line{"LeaseLost", "the lease is lost: the command was killed", "what the reason after it says: another may have the lock already"}
	NotKilled   = Line{"NotKilled", "the command could not be killed, because it runs as another user: it goes on, and the lock may end before it does",
		"end it as that user; call sudo redlock run, and not redlock run with sudo as its command"}
	LeftBehind = Line{"LeftBehind", "the command has ended, and left processes in its group that did not end within {limit}: they were killed",
		"a command that waits for its children, or a daemon that makes a session of its own"}
	NoGuard = Line{"NoGuard", "the guard was killed, and there is no other: if redlock is killed, only the kernel ends the command: {error}",
		"find who kills processes of redlock, and what this host lacks"}
	LostLock      = Line{"LostLock", "lost lock {lock}: {why}", "its work may be half done, and another may have begun it; exit code 74"}
	LostTerm      = Line{"LostTerm", "lost term {term} of election {name}, and stands again: {why}", "its work may be half done; nothing else"}
	MayStay       = Line{"MayStay", "lock {lock} may stay taken for up to {ttl}: {why}", "nothing: the command has ended in order, and the lock ends with its TTL"}
	NothingDone   = Line{"NothingDone", "nothing was done", ""}
	LockFree      = Line{"LockFree", "lock {lock} is free: nothing was done", ""}
	TakenAway     = Line{"TakenAway", "{lock} is taken away from {holder}", "that holder learns it within a third of its TTL: look that its work has stopped"}
	Begun         = Line{"Begun", "{standing}: the list has begun, with a maximum TTL of {ttl}; give every program the same list and the same maximum TTL", ""}
	InitStopped   = Line{"InitStopped", "interrupted: the list has not begun; to go on, call the same init again, which waits from the beginning", ""}
	NewListVotes  = Line{"NewListVotes", "done: the new list votes; start the clients with it, then take away the masters that only the old list has", ""}
	NewTermsVote  = Line{"NewTermsVote", "done: the new list votes; start the clients with it; no master is to be taken away", ""}
	ChangeStopped = Line{"ChangeStopped", "interrupted: while the old masters are retired, all locks are stopped; to go on, call the same reconfigure again; " +
		"to give the change up, if no majority is retired yet: redlock cancel", ""}
	GivenUp        = Line{"GivenUp", "done: the change is given up; the old list goes on", ""}
	NoChange       = Line{"NoChange", "nothing to give up: no change of these masters was begun", ""}
	StoppedWaiting = Line{"StoppedWaiting", "interrupted while it waited", "call it again; nothing is left behind, exit code 128 and the signal"}
	Interrupted    = Line{"Interrupted", "interrupted", "call it again; exit code 130"}
	CannotWrite    = Line{"CannotWrite", "cannot write the output: {error}", "make room where the output goes; what the command did is done, exit code 73"}
)

// All returns all messages, in the order of the table.
func All() []*Line {
	return []*Line{&WaitsForMasters, &WaitsForLock, &CannotStart, &NotFound, &NoInterpreter, &CannotRenew, &LeaseEnds, &LeaseLost, &NotKilled, &LeftBehind, &NoGuard, &LostLock,
		&LostTerm, &MayStay, &NothingDone, &LockFree, &TakenAway, &Begun, &InitStopped, &NewListVotes, &NewTermsVote, &ChangeStopped, &GivenUp, &NoChange,
		&StoppedWaiting, &Interrupted, &CannotWrite}
}
