// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
)

var errReply = errors.New("node: a reply that no script of this version gives")

// ErrRights: the scripts call commands that the user may not run, or that redis.conf has renamed or disabled.
var ErrRights = errors.New("node: this user may not run, or this master lacks,")

// scriptError is the error text that a script returned for one op. Redis or the script
// itself wrote it.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as an answer of the master.
func (scriptError) RedisError() {}

// IsReply reports whether the master answered with err. Otherwise the connection failed.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsWrongType reports whether err is the master's WRONGTYPE.
func IsWrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// NotServing returns the reason if err says that the server does not serve the node's
// locks: it is a replica, or the slot is elsewhere or being moved. Otherwise it returns
// nil. While a slot is moved, its votes are on two masters. Neither of them votes then, and
// the node does not follow ASK.
func NotServing(err error) error {
	if !IsReply(err) {
		return nil
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	switch {
	case redis.IsReadOnlyError(err):
		return protocol.ErrReplica
	case moved, ask, redis.IsClusterDownError(err), redis.IsTryAgainError(err), isPartlyExecuted(err):
		return err
	}
	return nil
}

// noWrites are the codes with which a master refuses to write, and what to do about each.
var noWrites = []struct{ code, remedy string }{
	{"OOM", "find what fills its memory, or raise maxmemory"},
	{"MISCONF", "look into its log: it cannot write to its disk"},
	{"NOREPLICAS", "start its replicas, or lower min-replicas-to-write"},
}

// NoWrites returns err as an ErrNoWrites if with it the master refused to write, and else nil.
func NoWrites(err error) error {
	if err == nil || errors.Is(err, protocol.ErrNoWrites) {
		return err
	}
	if !IsReply(err) {
		return nil
	}
	text := stripOrigin(err).Error()
	for _, no := range noWrites {
		if strings.HasPrefix(text, no.code+" ") {
			return fmt.Errorf("%w: %s (%s)", protocol.ErrNoWrites, text, no.remedy)
		}
	}
	return nil
}

// TurnedAway returns the error of a server that said text and hung up, as one that wants no client now, or nil.
func TurnedAway(text string) error {
	remedy := ""
	switch {
	case strings.HasPrefix(text, "ERR max number of clients"):
		remedy = "raise maxclients, or find what keeps connections open"
	case strings.HasPrefix(text, "DENIED "):
		text, _, _ = strings.Cut(text, " because ")
		remedy = "give it a password, or set protected-mode no"
	default:
		return nil
	}
	return fmt.Errorf("%w: %w (%s)", protocol.ErrTurnedAway, scriptError(text), remedy)
}

// isPartlyExecuted reports whether a script ended in the middle because a key that it
// derives is in a slot that is being moved.
func isPartlyExecuted(err error) bool {
	return strings.Contains(err.Error(), "access a non local key in a cluster")
}

// Lacks says whether err is a server's answer that it does not have a command: redis.conf has renamed it or disabled it.
func Lacks(err error) bool { return IsReply(err) && strings.Contains(err.Error(), "unknown command") }

// Explain adds the remedy to those errors of a master that have one.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if Lacks(err) { // it repeats what the command was given, which for AUTH is the password
		text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
		err = scriptError(text)
	}
	switch {
	case redis.IsAuthError(err):
		return fmt.Errorf("%w: %w (check user and password of this master)", protocol.ErrDenied, err)
	case redis.IsPermissionError(err), errors.Is(err, ErrRights),
		// What Redis before 7.2 answers in a script, for a command, a key and a channel...
		strings.Contains(err.Error(), "The user executing the script"),
		// ...and what Redis 7.2 and later answer.
		strings.Contains(err.Error(), "no permissions"), strings.Contains(err.Error(), "No permissions"),
		Lacks(err):
		return fmt.Errorf("%w: %w (grant it to the lock's user, or take its rename-command out of redis.conf; docs/operations.md lists all rights)", protocol.ErrDenied, err)
	}
	return err
}

// LacksRight says whether err, which Explain has explained, is that the user lacks a right, or the master a command. It is no wrong password.
func LacksRight(err error) bool { return errors.Is(err, protocol.ErrDenied) && !redis.IsAuthError(err) }

// DeniesCommand says whether err, which Explain has explained, denies a command, whatever it is called with. Other denials are of a key or a
// channel.
func DeniesCommand(err error) bool {
	text := err.Error()
	return errors.Is(err, protocol.ErrDenied) && (strings.Contains(text, "can't run this command") || strings.Contains(text, " to run the '") || Lacks(err))
}

const recordKey = "the key " + protocol.RecordKey + " (in a cluster " + protocol.RecordKey + ":{tag}, in a namespace " +
	"redlock:ns:NAMESPACE:" + protocol.RecordKey + ")"

// refusal gives the errors that the scripts themselves write their Go types.
func refusal(err error) error {
	if no := NoWrites(err); no != nil {
		return no
	}
	switch text, ok := strings.CutPrefix(err.Error(), "REDLOCK "); {
	case !ok:
		return Explain(err)
	case strings.HasPrefix(text, "STATE "), text == "STATE":
		return &protocol.RecordStateError{Got: strings.TrimPrefix(text[5:], " ")}
	default:
		return &protocol.RecordError{What: text + ", and a counter must be a number from 0 to below 2^53", Key: recordKey}
	}
}

// scriptOrigin matches what Redis before 7.0 puts ahead of the error of a command in a script:
// "ERR Error running script (call to f_...): @user_script:8: @user_script: 8: -".
var scriptOrigin = regexp.MustCompile(`^(ERR Error running script \(call to f_[0-9a-f]+\): )?(@user_script: ?[0-9]+: )+-?`)

// stripOrigin returns err with its code (READONLY, WRONGTYPE...) in front, as Redis 7.0
// and later word it. Redis before 7.0 puts what scriptOrigin matches ahead of the code.
func stripOrigin(err error) error {
	text := err.Error()
	if !IsReply(err) || !strings.Contains(text, "@user_script") {
		return err
	}
	if ahead := scriptOrigin.FindString(text); ahead != "" {
		return scriptError(strings.TrimSpace(text[len(ahead):]))
	}
	return err
}
