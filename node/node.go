// SPDX-License-Identifier: Apache-2.0

// Package node is one Redis master as the coordinator of a quorum lock sees it:
// a lane of operations that are sent in order and answered once.
//
// What it guarantees, whatever the network does: operations on one master take
// effect in the order they were submitted, as long as one connection lasts; an
// operation whose reply is lost is reported as [Unknown], never as a vote; an
// operation that was never sent is reported as [NotSent] and leaves nothing behind; and
// a release that was not acknowledged is kept and sent again, until the master
// acknowledges it or its vote is over.
//
// It knows nothing of quorums, leases or retries: see package redlock. It needs
// Redis 6.2 or later, or Valkey; scripts and commands use nothing newer.
package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/mutants"
)

// Node is what the coordinator needs of one master. [Redis] is the real one,
// package nodetest has one in memory. All methods are safe for concurrent use.
type Node interface {
	// Name tells this master from the others, in errors and reports: its
	// address, without credentials.
	Name() string
	// Subscribe has Binding.Message called for each message on channel from soon
	// on, until Unsubscribe; Binding.Subscribed tells when, and again after each
	// time the subscription was lost. Both return at once. One connection serves
	// all channels; it is there while there is one.
	Subscribe(channel string)
	Unsubscribe(channel string)
	// Submit hands op over and returns at once, without doing any I/O.
	//
	// true: op is queued, and its Receiver is called exactly once, from a
	// goroutine of the node; op belongs to the node until then. false: the
	// Receiver is not called, and op.Reply says why: NotSent, or Unknown of a
	// Release or Leave, which the node keeps and sends later.
	//
	// Operations submitted one after another are executed in that order, those that
	// the node kept included. A kept Release or Leave is sent again until the master
	// acknowledges it, until op.Until, or until there are too many
	// ([Redis.Unacknowledged]). One whose acquire may lie unread on a broken
	// connection is kept for the next connection, however late.
	Submit(op *Op) bool
	// Bind ties the node to its coordinator. It must be called once, before
	// anything else.
	Bind(b Binding)
	// Ready waits until the master has answered a first time, the time of a
	// dial is over, or ctx ends. It returns why the master cannot vote now, or
	// nil. Later calls do not wait.
	Ready(ctx context.Context) error
	// Enter tells the node in which epoch its master is, "number.id", and whether
	// it may be asked for votes: refusal nil. Else every Acquire and Confirm is NotSent,
	// with refusal as its error. It is to be called again after each new connection to
	// another process, and after each [ErrClock]: until then the node asks for no vote,
	// because nobody has compared the master's clock with the others'. Masters without a
	// gate need no Enter.
	//
	// asOf is when what the call rests on was asked for, on the node's clock: a call without a
	// refusal is ignored when the node has become doubtful since.
	Enter(epoch string, refusal error, asOf time.Duration)
	// Close sends what is queued, for at most one round trip's timeout, and
	// frees everything. Later Submits return false. Close is safe twice.
	Close() error
}

// Binding is what a node must know of the masters it votes with, and whom it
// tells of what it finds.
type Binding struct {
	// Gated: the scripts compare the node record's gate with that of the epoch that
	// Enter names. Without it the masters keep no gate: they vote right after a
	// restart, which is unsafe.
	Gated bool
	// Drift is how far the master's clock may move from ours unsuspected.
	Drift clock.Drift
	// Admit is called with what the master says of itself on each new
	// connection, before anything else is sent. An error keeps the node down.
	// Nil admits all.
	Admit func(Identity) error
	// Up is called from the lane after each new connection, when Submit takes
	// ops again. It must not block. Nil is fine.
	Up func()
	// Message is called with each message on a subscribed channel, and
	// Subscribed when messages may have been missed: after subscribing, and
	// after subscribing again. Neither may block. Nil is fine.
	Message    func(channel, payload string)
	Subscribed func(channel string)
	// Trouble is called from the lane with a *GateError when the node record is
	// not as it should be, with WRONGTYPE when it, or else a lock, is not even a
	// hash, or with ErrClock. It must not block. Nil is fine.
	Trouble func(error)
}

// Kind is what an Op asks for.
type Kind uint8

const (
	// Acquire asks for a vote: Granted with the vote's Token, or Held by
	// another, or by those who queue ahead. Op.Token proposes the least token.
	// With Op.Wait it joins the lock's queue, or stays in it, when it is not
	// granted.
	Acquire Kind = iota + 1
	// Release takes the holder's vote back: Granted (it was there), or Absent. With
	// Op.Wait the holder, who was granted less than a quorum, is in the lock's queue
	// again at once, and is not woken although the lock is free here.
	Release
	// TopUp puts a vote of a live lease back where it got lost: Granted, or
	// Held. Only a coordinator that has just proved its lease on a quorum may
	// send it (docs/algorithm.md, "Top-up").
	TopUp
	// Extend gives Items' votes a new TTL where they are still there; Reply.Intact
	// says which. It never creates one.
	Extend
	// Confirm raises the lock's counter to Op.Token if the holder's vote is still
	// there: Granted, or Absent.
	Confirm
	// ReadRecord reads the node record, or Fields of it, into Reply.Record: Granted.
	ReadRecord
	// SwapRecord sets fields of the record if others still have the values that Swap
	// names: Granted, or Refused with a *GateError.
	SwapRecord
	// Leave takes Op.Wait.Waiter out of the lock's queue, if it has the place of
	// Op.Wait.Ticket there or that is 0: Granted, or Absent. Like a Release it is never
	// forgotten.
	Leave
	// Beat renews the sign of life of client Op.Holder for TTL: Granted. Its
	// waiters drop out of all queues without it.
	Beat
)

var kinds = [...]string{"?", "acquire", "release", "top-up", "extend", "confirm", "read record", "swap record", "leave", "beat"}

func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return "?"
	}
	return kinds[k]
}

// Mode is how a lock is held.
type Mode byte

const (
	Plain Mode = 'x' // by one; Redisson's RLock
	Write Mode = 'w' // by one; the write side of Redisson's RReadWriteLock
	Read  Mode = 'r' // by any number, while nobody writes
)

// Lock is a lock's name and mode with the keys and channels derived from them,
// computed once by [NewLock]. It is immutable.
type Lock struct {
	Name    string
	Mode    Mode
	Channel string // where Redisson tells of a release
	queue   string
	counter string // its field in the node record
	index   int    // of the counter
	mode    string
}

// NewLock derives what a master needs to know of one side of the lock called name.
func NewLock(name string, mode Mode) *Lock {
	l := &Lock{
		Name: name, Mode: mode, mode: string(mode),
		Channel: redissonName("redisson_lock__channel", name),
		queue:   redissonName("redlock:queue", name),
		index:   counterIndex(name),
	}
	l.counter = CounterField(l.index)
	if mode != Plain {
		l.Channel = redissonName("redisson_rwlock", name)
	}
	return l
}

// Field is the holder's field in the lock's hash.
func (l *Lock) Field(holder string) string {
	if l.Mode == Write {
		return holder + ":write"
	}
	return holder
}

// Wake is the channel on which the masters wake the waiters of a client: its
// messages are names of locks.
func Wake(client string) string { return "redlock:wake:" + client }

// Item is one vote in an Extend.
type Item struct {
	Lock   *Lock
	Holder string
	Count  int // hold count to set; 0 leaves it as it is
}

// Request is what is asked of a master, or the same of several: ops may share one.
// It is not written by anybody from the first Submit to the last answer.
type Request struct {
	Kind   Kind
	Lock   *Lock
	Holder string        // id of the attempt that the vote belongs to
	TTL    time.Duration // Acquire, TopUp, Extend; whole milliseconds reach the master
	Token  int64         // Acquire: the proposed least token; Confirm: the token
	Count  int           // TopUp: the hold count
	Items  []Item        // Extend only

	Wait *Wait  // Acquire and Release by one that waits, and Leave
	Over string // Acquire of a Read: the field of a write vote of the same owner to join
	Swap *Swap  // SwapRecord

	Fields []string // ReadRecord: these only; none: all, among them a counter for many a lock

	// Start and Until are on the clock the node was opened with. Start is when
	// the submitter began; Until is when the answer stops being of use: an op
	// still queued then is dropped unsent, and a Release is not sent again.
	Start, Until time.Duration

	More bool // the submitter has more for this master at once: wait for it, and send them together
}

// Op is a request to one master. The submitter fills it and must not touch it again
// until its Receiver was called.
type Op struct {
	*Request
	To    Receiver
	Index int // the submitter's own mark: which node this is

	Reply Reply
}

// Receiver takes the answer of an Op, in op.Reply. It is called on the lane and
// must not block.
type Receiver interface{ Receive(op *Op) }

// Wait is a place in a lock's queue.
type Wait struct {
	Waiter   string        // the client's id (36 bytes), and "/r" or "/w" for a side
	Ticket   int64         // its place in the queue; 0: the master gives a new one
	Liveness time.Duration // of the client's sign of life
	Unfair   bool          // take the lock when it is free, whoever is ahead
}

// Swap is a compare-and-set of a node record. Both lists are field, value, field, value...
type Swap struct {
	If  []string // as they must be; an empty value for a field that must not be there
	Set []string // counters are only ever raised; an empty value removes the field
}

// undoes says whether r takes back what an earlier op did: the node sends it again
// until the master acknowledges it.
func (r *Request) undoes() bool { return (r.Kind == Release || r.Kind == Leave) && !mutants.NoDebt }

// Class says what a reply means to a vote counter.
type Class uint8

const (
	// Unknown: no answer. The op may have been executed, or may yet be.
	// It is no vote, and an Acquire is to be followed by a Release.
	Unknown Class = iota
	// Granted: done as asked.
	Granted
	// Held: another holder has the lock here, for Reply.Remaining.
	Held
	// Absent: the holder had no vote here.
	Absent
	// Refused: the master answered but will not vote; Reply.Err says why.
	// Nothing was changed.
	Refused
	// NotSent: the op was certainly never executed and never will be: there is
	// nothing to release. Reply.Err says why. A Release or Leave is never NotSent:
	// the node sends it later.
	NotSent
)

var classes = [...]string{"unknown", "granted", "held", "absent", "refused", "not sent"}

func (c Class) String() string {
	if int(c) >= len(classes) {
		return "?"
	}
	return classes[c]
}

// Reply is what came of an Op.
type Reply struct {
	Class    Class
	Stranger bool // Acquire, Held, with Wait: the holder is Redisson's
	// Remaining is the TTL that is left to the other holder; negative when the
	// key has none, as no lock of ours or of Redisson's ever should.
	Remaining time.Duration
	// Holder is the other holder, or one of them, of an Acquire without Wait that is
	// Held. Empty: nobody holds the lock here, but others queue for it.
	Holder string
	Token  int64             // Acquire, Granted: the vote's token
	Ticket int64             // Acquire, Held, with Wait: its place in the queue
	Ahead  int               // and how many are before it
	Intact []bool            // Extend: one an item
	Record map[string]string // ReadRecord: the fields that are there
	Seen   Seen              // ReadRecord
	Err    error             // Unknown, NotSent and Refused
}

// Seen says of a record when it was read, and of which master.
type Seen struct {
	// Sent and Received are on the clock the node was opened with, around the reading.
	Sent, Received time.Duration
	// Time is the master's clock at some moment in between, since 1970.
	Time        time.Duration
	Incarnation string // of the master, on the connection that was used
}

var (
	// ErrClosed: the node was closed.
	ErrClosed = errors.New("node: closed")
	// ErrDown: the master cannot be reached; its breaker is open and one probe
	// at a time is on the way.
	ErrDown = errors.New("node: master unreachable")
	// ErrStalled: the master has not answered for longer than the stall limit.
	// Nothing more is sent until it does.
	ErrStalled = errors.New("node: master does not answer")
	// ErrBusy: more than QueueLimit operations wait for this master.
	ErrBusy = errors.New("node: queue is full")
	// ErrClock: the master's clock moved differently from ours, by more than
	// round trip and drift. Votes counted by it are worth nothing
	// (docs/safety.md A3, A4).
	ErrClock = errors.New("node: the master's clock jumped")
	// ErrNotEntered: nobody has looked at the master's record and clock yet. See
	// Node.Enter.
	ErrNotEntered = errors.New("node: the master's record and clock were not looked at yet")
	// ErrLate: the op's time was over before it could be sent.
	ErrLate = errors.New("node: too late to send")
	// ErrReplica: the address is a replica's. Votes of a replica mean nothing.
	ErrReplica = errors.New("node: not a master")
	// ErrDenied: the master refused the user or the password, or the user lacks a right.
	// An operator must change it.
	ErrDenied = errors.New("node: access denied")
	// ErrEviction: the master may throw locks away when memory runs short
	// (docs/safety.md A10).
	ErrEviction = errors.New("node: maxmemory-policy evicts keys")
)

// Error is an error of one master, with its name.
type Error struct {
	Node string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Node, e.Err) }
func (e *Error) Unwrap() error { return e.Err }
