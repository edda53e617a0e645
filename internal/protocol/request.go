// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// Kind is what an Op asks for.
type Kind uint8

const (
	// Acquire asks for a vote. The outcome is Granted with the vote's Token, or Held:
	// by another holder, or because others are ahead in the queue. Op.Token proposes
	// the least token. With Op.Wait, an Acquire that is not granted takes a place in the
	// lock's queue, under its holder id. Until the place is given back the master may
	// hand it the vote: see [Hand].
	Acquire Kind = iota + 1
	// Release gives back what the holder has: a vote, or a place in the queue. The
	// outcome is Granted if a vote was there, else Absent. With Op.Hand the master may
	// hand the lock to the head of the queue. With Op.Lift it also ends the lock's rest.
	Release
	// TopUp restores a vote of a live lease on a master that lost it. The outcome is
	// Granted or Held; Held too if the holder is barred. Only a coordinator that has just proved its lease on a quorum
	// may send it (docs/internals/algorithm.md, "Top-up").
	TopUp
	// Extend gives the votes of Items a new TTL where they are still there.
	// Reply.Intact says which are. It never creates a vote.
	Extend
	// Confirm raises the lock's counter to Op.Token if the holder's vote is still
	// there. With Op.Rest the lock then rests for so long: the master gives no vote to any other
	// holder, also when this one is over. The outcome is Granted or Absent.
	Confirm
	// ReadRecord reads the node record, or Fields of it, into Reply.Record. The
	// outcome is Granted.
	ReadRecord
	// CompareAndSetRecord sets fields of the record if other fields have the values
	// that Request.CompareAndSet names. The outcome is Granted, or Refused with a
	// *RecordStateError.
	CompareAndSetRecord
	// Heartbeat renews the sign of life of client Op.Holder for TTL, with Op.Start as the
	// stamp. The outcome is Granted. A client whose sign of life has ended loses its places
	// in all queues.
	Heartbeat
	// Introduce keeps Op.Owner as the label of client Op.Holder for TTL, for those who inspect a
	// lock. The outcome is Granted.
	Introduce
	// Dequeue takes Op.Place out of the lock's queue. The outcome is Granted if it was there, else
	// Absent. It touches no vote, so it is right whoever has the place.
	Dequeue
	// Announce keeps Op.Announce beside the lock for TTL, and tells those who observe the lock,
	// if it is new. The outcome is Granted, or Absent if the holder has no vote on this master.
	// An Announce without a text takes back what the holder announced; the outcome is Absent if
	// there is nothing of the holder's.
	Announce
	// Bar makes the master refuse every TopUp of the holder for TTL. The outcome is Granted.
	Bar
	// ListLocks reads names of locks that begin with Op.Prefix, from Op.Cursor on, into Reply.Listed.
	// The outcome is Granted.
	ListLocks
	// Inspect reads who has the lock on this master, into Reply.Inspected. It changes nothing. The
	// outcome is Granted.
	Inspect
	// Adopt gives Holder the vote of the holder From. The outcome is Granted with the vote's Token, as
	// of an Acquire, or Absent if From has no vote, maybe because another has adopted it, or because
	// the master has another record state than Op.Voted.
	Adopt
)

var kinds = [...]string{"?", "acquire", "release", "top-up", "extend", "confirm", "read record", "compare-and-set record", "heartbeat", "introduce", "dequeue", "announce", "bar", "list locks", "inspect", "adopt"}

func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return "?"
	}
	return kinds[k]
}

// Request is what is asked of a master, or the same of several masters: ops may share
// one. Nobody writes it between the first Submit and the last answer.
type Request struct {
	Kind   Kind
	Lock   *Lock
	Holder string        // id of the attempt that the vote belongs to
	TTL    time.Duration // Acquire, TopUp, Extend, Adopt, Heartbeat, Introduce, Announce, Bar; the master gets whole milliseconds
	Token  int64         // Acquire, Adopt, Release with Hand: the proposed least token; Confirm: the token
	Count  int           // TopUp: the hold count
	Rest   time.Duration // Confirm: how long the lock rests from now on; 0: it does not
	Items  []Item        // Extend

	Wait  *Wait  // Acquire of a waiter
	Place string // Dequeue: what a wake named
	From  string // Adopt: the id of the holder whose vote it takes
	Voted string // Adopt: [Node.VotingState] when the ticket for that vote was made
	// Passed says that an Adopt takes the vote of a holder of its own client, which is over. No Voted goes with it: that vote may be removed
	// whatever data it is in, so it may become this one.
	Passed bool
	// Lift is the holder whose rest of the lock a Release ends; empty: none.
	Lift string
	// Announce is the text of an [Announcement].
	Announce string
	Owner    string // Introduce
	Cursor   string // ListLocks
	Prefix   string // ListLocks
	// Hand is the TTL of a vote that a Release may hand to the head of the queue; 0: it may
	// not. Only the vote of a holder that has seen and believed it may be handed on (H17 in
	// docs/internals/handoff.md): else a master whose clock jumped would hand on what it expired.
	Hand time.Duration
	// Leaves says that an Acquire of the submitter is behind this Release, with the ticket of
	// the place that the Release gives up. So the master need not wake the next in the queue. With
	// More, the node sends it as any other Release if it does not send such an Acquire behind it.
	Leaves bool

	JoinWrite     string         // Acquire of a Read: the field of a write vote of the same owner, to join
	CompareAndSet *CompareAndSet // CompareAndSetRecord

	Fields []string // ReadRecord: the fields to read; none: all, with one counter for many locks

	// Start and Deadline are on the clock that the node was opened with. Start is when
	// the submitter began. At Deadline the answer stops being useful: the node drops
	// an op that is still queued then, and does not send a Release again.
	Start, Deadline time.Duration

	// More says that the submitter has another op for this master at once. The node
	// waits for it and sends both together.
	More bool
}

// Op is a request to one master. The submitter fills it and must not touch it again until
// its Receiver was called.
type Op struct {
	*Request
	To    Receiver
	Index int // the submitter's own mark: which node this is

	Reply Reply
}

// Receiver takes the answer of an Op, in op.Reply. The lane calls Receive, which must not
// block.
type Receiver interface{ Receive(op *Op) }

// Item is one vote in an Extend.
type Item struct {
	Lock   *Lock
	Holder string
	Count  int // hold count to set; 0 leaves it as it is
}

// Wait is a place in a lock's queue. The place belongs to the holder id of its Acquire, which
// begins with the client's id (36 bytes).
type Wait struct {
	Ticket   int64         // the place in the queue; 0: the master gives one by its clock
	Liveness time.Duration // TTL of the client's sign of life, whose stamp is the request's Start
	Unfair   bool          // take the lock when it is free, although others are ahead
	Retry    bool          // the caller has asked before, with this ticket: if others are ahead of it, wake them
	Only     bool          // take the place and no vote, though the lock may be free
	// Oust is a Retry for a lock that is for an order only: the master takes the vote of a holder away whose client gave a sign of
	// life and does not listen. Where a lock excludes, that is a second holder.
	Oust  bool
	Again bool // this holder has asked before: find its vote or its place, and create no place
}

// CompareAndSet is a conditional change of a node record. Both lists are field, value,
// field, value...
type CompareAndSet struct {
	If  []string // required values; an empty value means that the field must be absent
	Set []string // new values; a counter is only raised, an empty value removes the field
}
