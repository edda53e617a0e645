// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strconv"
	"strings"
	"time"
)

// Announcement is what the holder of a lock says about itself. The masters keep it beside the lock
// while the holder announces it again and again. It names its holder, so a reader can tell what an
// earlier holder said.
type Announcement struct {
	Field string    // the holder's field in the lock's hash
	Token int64     // the fencing token
	Since time.Time // when the hold began, on the holder's clock, in whole milliseconds
	Value string    // the caller's own; any bytes
}

// String is the announcement as the masters keep it.
func (a Announcement) String() string {
	return strings.Join([]string{a.Field, strconv.FormatInt(a.Token, 10), strconv.FormatInt(a.Since.UnixMilli(), 10), a.Value}, "\x00")
}

// ParseAnnouncement reads what a master keeps. ok is false if it is none.
func ParseAnnouncement(text string) (a Announcement, ok bool) {
	words := strings.SplitN(text, "\x00", 4)
	if len(words) != 4 {
		return Announcement{}, false
	}
	token, err1 := strconv.ParseInt(words[1], 10, 64)
	since, err2 := strconv.ParseInt(words[2], 10, 64)
	if err1 != nil || err2 != nil || token <= 0 {
		return Announcement{}, false
	}
	return Announcement{Field: words[0], Token: token, Since: time.UnixMilli(since), Value: words[3]}, true
}

// Inspected is what one master knows about a lock.
type Inspected struct {
	// Votes says that the master may vote. Another one may have forgotten a holder.
	Votes        bool
	Counter      int64  // of the lock, and of the locks that share it: no smaller than any token that the master gave
	Announcement string // as the master keeps it; empty if there is none
	Votings      []Voting
	Rest         Voting    // the rest of the lock, whose Field is empty if there is none
	Waiting      []Waiting // the first in the lock's queue whose clients are alive, in its order
}

// Voting is one vote on one master.
type Voting struct {
	Field string        // the holder's, in the lock's hash
	Mode  Mode          // of the vote
	Count int           // the hold count
	Left  time.Duration // the rest of its TTL; negative if it has none
	Owner string        // the label of the holder's client; empty if it has none
}

// Waiting is one place in a lock's queue on one master.
type Waiting struct {
	Place  string
	Ticket int64
	Owner  string // as in Voting
}

// Listed is one step of a list of locks on one master.
type Listed struct {
	Cursor string // where the next step begins; 0: this was the last
	Names  []string
}

// ClientOf is the id of the client that a holder or a place belongs to: the first 36 bytes.
func ClientOf(id string) string { return id[:min(36, len(id))] }
