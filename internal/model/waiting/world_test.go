// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Sizes of a world: three masters of which two are a quorum, and three processes at most.
const (
	masters   = 3
	need      = 2
	all       = 1<<masters - 1
	processes = 3
)

// A vote lasts ttl, whether it was asked for or handed, and a tick is half of that.
const (
	ttl  = waiting.Liveness
	tick = ttl / 2
)

// state is the record state of all masters. No master recovers.
const state = "votes|1|a"

// Config is the size of a world, and what goes wrong in it.
type Config struct {
	Lines    []int // by process, how many callers are in its line
	Attempts int   // how many attempts each process makes; a run in which one would make more ends
	Ticks    int   // how often half a TTL passes
	Lost     int   // how many messages are lost
	Twice    int   // how many messages are read twice
	Cuts     int   // how often a connection breaks, with an op on its way
	Jumps    int   // how often the clock of a master jumps ahead, by a TTL
	Crashes  int   // how many processes die
	Cancels  int   // how many callers give up
	// TTL is how long a vote lasts that was asked for; 0: as long as one that was handed. Below that no vote is handed.
	TTL    time.Duration
	Prompt bool // a reply is read as soon as it was sent, and only messages may be late
	Dally  bool // a caller that was woken may run later
	Brief  bool // all holds were brief until now
	Still  bool // a state is wrong in which somebody waits, nobody has the lock, and nothing happens by itself: for walks, which see no dead ends
	// Drop is a defence that is missing.
	Drop Rule
}

// Rule is a defence of the client.
type Rule string

// The defences that can be dropped, as docs/internals/handoff.md and docs/safety.md call them, and edges of the machine.
const (
	None      Rule = ""
	Stamp     Rule = "H1"     // a handed vote counts from the stamp in its message
	Leave     Rule = "H4"     // giving up removes the places as well as the votes
	Over      Rule = "H5"     // once a give-back is sent, that vote does not count
	FreshID   Rule = "H6"     // each attempt has an id of its own
	Order     Rule = "H14"    // ops to one master are executed in the order in which they were sent
	Believed  Rule = "H17"    // a vote that its client does not believe is given back without a hand
	Yields    Rule = "H11"    // votes that are no quorum, and that no message can complete, are given back: Timer, of Stuck
	ShortHand Rule = "H12"    // a handed vote lasts no longer than a sign of life
	PassedBy  Rule = "H19"    // a place whose client no message reaches is passed by
	Confirmed Rule = "R5"     // a quorum has the token before the lock is held
	Gathers   Rule = "few"    // some votes, of which no others come, are followed by an attempt: Timer, of Gathering
	Woken     Rule = "wake"   // a wake makes the caller ask: Wake
	Votes     Rule = "vote"   // a vote that comes while the caller sleeps is counted: Vote
	FreeTold  Rule = "free"   // the lock may be free where the caller took a place: Free
	Asks      Rule = "timer"  // a caller asks when its patience is over: Timer, of Queued
	Passes    Rule = "passes" // the turn is passed with the release, or after a moment: ReleasedHere and Timer, of Passing
	Offered   Rule = "offer"  // what a caller was offered and does not take is released
	Remains   Rule = "rest"   // a master that does not let the caller take over is sent the release
)

// op is on its way to a master.
type op struct {
	gen     int8
	wants   bool // its answer is looked at
	req     protocol.Request
	release *protocol.Request // that of who gives the lock back, of an op that takes it over
}

// answer is on its way from a master.
type answer struct {
	gen   int8
	kind  protocol.Kind
	reply protocol.Reply

	release *protocol.Request // see op
}

// stage is where the goroutine of the caller is whose turn it is.
type stage uint8

const (
	sleeping   stage = iota // in the loop of Lock
	asking                  // some masters were not asked yet
	awaiting                // it waits for the verdict
	settling                // it has a quorum of votes, and waits for masters to confirm the token
	takingOver              // it waits for the verdict on what it was offered
)

// settle is a token on its way to be confirmed.
type settle struct {
	token                 int64
	agree, below, yes, no uint64
	open                  bool // the attempt had been refused, and won while its caller slept
	offered               bool // the attempt takes a lock over
}

// hold is a lock that was granted.
type hold struct {
	call  *quorum.Call // nil: none
	gen   int8
	token int64
	until time.Duration
}

// death is what a process had when it died.
type death struct {
	at     time.Duration
	voted  bool // a vote
	waited bool // and had asked for none of them
}

// process is a client with a line of callers.
type process struct {
	machine waiting.Machine
	call    *quorum.Call // of the attempt under way, or of the open one
	gen     int8         // of the last attempt
	start   time.Duration
	stage   stage
	asked   uint64
	woken   bool // the caller's channel holds a token
	listens bool
	timer   byte // 0: none; 1: within moments; 2: for long
	line    int8 // callers
	came    int8 // how many had their turn
	settle  settle
	hold    hold
	offer   hold // what the caller whose turn it is may take over
	passes  int8 // how many may still take over
	dead    bool
	death   death
	signed  time.Duration // when it last gave a sign of life
	doubts  uint64        // the masters whose clock jumped since the process last had an answer
	barred  uint64        // the masters whose clock is known to have jumped: they are asked for no vote

	lanes [masters][]op
	back  [masters][]answer
	told  [masters][]string
}

// world is a state. Its slices, masters and calls are shared with the states before it: they are copied when they change.
type world struct {
	now     time.Duration
	ahead   [masters]time.Duration
	masters [masters]*votesmodel.Master
	procs   [processes]process
	used    [8]int8 // of each budget
	token   int64   // of the last grant
	hurt    bool    // something was lost, died or jumped
	cut     bool    // a process would make one attempt too many
	wrong   string
}

// Budgets.
const (
	ticks = iota
	lost
	twice
	cuts
	jumps
	crashes
	cancels
)

// Step is what happens.
type Step struct {
	Kind StepKind
	P, I int8 // process and master
}

// StepKind is the kind of a step.
type StepKind uint8

// What happens by itself, and then what goes wrong.
const (
	Executes    StepKind = iota // the master executes what was sent to it
	Answers                     // the process reads a reply
	Hears                       // the process reads a message
	Runs                        // the caller that was woken runs
	Moment                      // a timer of some milliseconds fires
	Unlocks                     // the holder gives the lock back, after a brief hold
	UnlocksLate                 // the same after a longer hold
	Timer                       // the long timer fires
	Ticks                       // half a TTL passes
	Lives                       // the process gives a sign of life
	Loses                       // a message is lost
	HearsTwice                  // a message is read, and stays on its way
	Breaks                      // the connection breaks, and the op is not executed
	BreaksLate                  // the connection breaks, and the op was executed
	Jumps                       // the master's clock jumps ahead by a TTL
	Dies                        // the process dies
	GivesUp                     // the caller whose turn it is gives up
	Overtakes                   // an op overtakes the one before it
)

var stepTexts = [...]string{"m%[2]d executes what p%[1]d sent", "p%[1]d reads the reply of m%[2]d", "p%[1]d reads a message of m%[2]d", "p%[1]d's caller runs",
	"p%[1]d's timer of a moment fires", "p%[1]d unlocks", "p%[1]d unlocks after a longer hold", "p%[1]d's timer fires", "half a TTL passes", "p%[1]d gives a sign of life",
	"a message of m%[2]d to p%[1]d is lost", "p%[1]d reads a message of m%[2]d, which comes again", "p%[1]d's op does not reach m%[2]d", "m%[2]d executes what p%[1]d sent, and the reply is lost",
	"m%[2]d's clock jumps", "p%[1]d dies", "p%[1]d's caller gives up", "p%[1]d's op to m%[2]d overtakes the one before"}

// String tells the step as a sentence.
func (s Step) String() string {
	text := fmt.Sprintf(stepTexts[s.Kind]+"\x00", s.P, s.I)
	text, _, _ = strings.Cut(text, "\x00")
	return text
}

// Story is a run.
type Story struct{ lines []string }

// String lists the steps, one a line.
func (s Story) String() string {
	var b strings.Builder
	for i, line := range s.lines {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, line)
	}
	return b.String()
}
