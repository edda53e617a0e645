// SPDX-License-Identifier: Apache-2.0

// Package logline has the lines that a client logs: the level of each, its message, what its attributes say, and what helps; and the
// Observer that logs them. The table of docs/observe.md is written from it.
package logline

import (
	"context"
	"log/slog"
)

// Line is one kind of line.
type Line struct {
	Level slog.Level
	Text  string // the message
	Attrs string // the attributes, in Markdown
	Helps string // what to do, in Markdown; empty if nothing is wrong
}

// To writes the line.
func (l *Line) To(ctx context.Context, logger *slog.Logger, attrs ...slog.Attr) {
	logger.LogAttrs(ctx, l.Level, l.Text, attrs...)
}

// The lines, in the order of the table.
var (
	Opening = Line{slog.LevelInfo, "redlock: opening waits for a quorum of masters", "`answered`, `quorum`, `why`",
		"[what `why` says](operations.md#open-hangs); `Open` goes on by itself"}
	Down = Line{slog.LevelWarn, "redlock: a master is down", "`master`, `why`",
		"what `redlock status` [says of this master](operations.md#one-master-is-missing); locks work while a quorum votes"}
	Recovers = Line{slog.LevelWarn, "redlock: a master recovers and does not vote", "`master`, `why`, `for`: until it may vote, if that is known",
		"[wait](operations.md#masters-recover): programs of this list let it vote"}
	Refuses = Line{slog.LevelError, "redlock: a master will not vote until somebody acts", "`master`, `why`",
		"what `why` says, which ends with the command where there is one"}
	VotesAgain = Line{slog.LevelInfo, "redlock: a master votes again", "`master`, `after`: for how long it did not", ""}
	Votes      = Line{slog.LevelInfo, "redlock: a master votes", "`master`; its first time, if it was down or recovered when the client was opened", ""}
	Lost       = Line{slog.LevelWarn, "redlock: a lease is lost", "`lock`, `token`, `held`, `cause`, `why`",
		"what [A lease is lost](operations.md#a-lease-is-lost) says; its work must have stopped"}
	Unconfirmed = Line{slog.LevelWarn, "redlock: a release is not confirmed", "`lock`, `token`, `why`",
		"[nothing](operations.md#a-release-is-not-confirmed): the client goes on releasing; else the lock is free when its TTL is over"}
	WaitsRecovery = Line{slog.LevelInfo, "redlock: a Lock waits for masters that recover", "`lock`, `for`, `why`", "wait for so long"}
	StillWaits    = Line{slog.LevelInfo, "redlock: a Lock still waits", "`lock`, `waited`, `why`: the last round, with the votes; after 10, 20, 40 s and so on",
		"`redlock inspect` says [who has the lock](operations.md#see-who-has-a-lock)"}
	EndedWith    = Line{slog.LevelInfo, "redlock: a long wait ended with the lock", "`lock`, `waited`", ""}
	EndedWithout = Line{slog.LevelInfo, "redlock: a long wait ended without the lock", "`lock`, `waited`, `why`", "what `why` says"}
	Far          = Line{slog.LevelWarn, "redlock: round trips are too long for the node timeout", "`trip`, `node_timeout`, `ttl`, `remedy`; once, until the masters are near again",
		"a longer TTL (`WithTTL`), a longer `WithNodeTimeout` if that is set, or masters that are nearer"}
	ClockJumped = Line{slog.LevelWarn, "redlock: a clock seems to have jumped", "`master`",
		"[see to that clock](operations.md#a-clock-jumped)"}
	OwnClock = Line{slog.LevelError, "redlock: the clock of this host jumped; all its leases are lost", "",
		"see to the clock of this host, and to what stopped it: a suspended machine, a debugger"}
	Panicked = Line{slog.LevelError, "redlock: a function of the program panicked and is not called any more", "`function`, `panic`, `stack`",
		"mend that function; locks work without it"}
	OtherEpoch = Line{slog.LevelInfo, "redlock: the masters vote in another epoch", "`from`, `to`", "nothing, if somebody ran `init` or `reconfigure`"}
)

// All returns all lines, in the order of the table.
func All() []*Line {
	return []*Line{&Opening, &Down, &Recovers, &Refuses, &VotesAgain, &Votes, &Lost, &Unconfirmed, &WaitsRecovery, &StillWaits,
		&EndedWith, &EndedWithout, &Far, &ClockJumped, &OwnClock, &Panicked, &OtherEpoch}
}
