// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"
)

// setup is what a simulation is made of. Times are those of the whole run.
type setup struct {
	masterCount, clientCount, callers int           // callers of each client
	hold, rest                        time.Duration // how long a caller holds the lock, and rests before it calls again
	length                            time.Duration
	ttl                               time.Duration
	trip, jitter                      time.Duration // a round trip; each way may take up to half the jitter longer
	slow                              time.Duration // the last master's trips take so much longer
	lost                              float64       // part of the messages that is lost
	drop                              Rule
	ticketError                       time.Duration // client 0's estimate of the masters' clock is early by so much
	sharedCounter                     bool          // other locks raise the counters, each master's by itself
	quietAt                           time.Duration // from then on nothing is lost, and callers do not come back; 0 for never
	faults                            func(s *sim)  // schedules what goes wrong
	java                              bool          // a Redisson client takes part
}

// event is something that happens at a time. Events of one time happen in the order in which they were planned.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// sim is one run, the same for the same set-up and seed. Nothing in it runs at the same time as anything else.
type sim struct {
	setup
	random   *rand.Rand
	now      time.Duration
	planned  events
	seq      int
	masters  []*simMaster
	clients  []*simClient
	redisson *simJava // nil for none
	quiet    bool     // faults have ceased: no message is lost
	log      []line

	lastToken  int64
	lastUnlock time.Duration // 0 once the next grant is counted
	seen       tally
}

// tally is what a run counted.
type tally struct {
	grants, second, executed, beats, lost, retries, claims, inversions int
	handOffs                                                           []time.Duration // from an Unlock to the next grant, while somebody waited
	waits                                                              []time.Duration
	grantsAt                                                           []time.Duration
	lastGrant                                                          time.Duration
	byClient                                                           map[int]int
	lastBy                                                             map[int]time.Duration
	wrong                                                              []string
}

// simMaster is a master with its network.
type simMaster struct {
	Master
	extra   time.Duration
	reaches map[string]bool // clients that its messages reach
	states  int             // incarnations so far
	down    bool
}

func newSim(p setup, seed uint64) *sim {
	s := &sim{seen: tally{byClient: map[int]int{}, lastBy: map[int]time.Duration{}}, setup: p, random: rand.New(rand.NewPCG(seed, 1)), now: time.Second}
	for n := range p.masterCount {
		m := &simMaster{}
		m.State, m.drop = "0", p.drop
		m.Listens, m.reaches = map[string]bool{}, map[string]bool{}
		if n == p.masterCount-1 {
			m.extra = p.slow
		}
		s.masters = append(s.masters, m)
	}
	for i := range p.clientCount {
		c := newSimClient(s, i)
		s.clients = append(s.clients, c)
		for _, m := range s.masters {
			m.Listens[c.id], m.reaches[c.id] = true, true
		}
	}
	return s
}

// run runs everything that is planned until the end.
func (s *sim) run() *tally {
	if s.faults != nil {
		s.faults(s)
	}
	if s.quietAt > 0 {
		s.plan(s.after(s.quietAt), func() { s.quiet = true })
	}
	if s.java {
		s.redisson = &simJava{s: s}
		s.plan(s.after(s.hold), s.redisson.try)
	}
	for _, c := range s.clients {
		for range s.callers {
			c.call(s.after(time.Duration(s.random.Int64N(int64(time.Millisecond)))))
		}
		c.beat()
	}
	end := s.now + s.length
	for len(s.planned) > 0 && s.planned[0].at <= end {
		e := heap.Pop(&s.planned).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
	return &s.seen
}

func (s *sim) after(d time.Duration) time.Duration { return s.now + d }

func (s *sim) plan(at time.Duration, do func()) {
	s.seq++
	heap.Push(&s.planned, event{at, s.seq, do})
}

// way is how long a message to or from master n takes.
func (s *sim) way(n int) time.Duration {
	d := s.trip/2 + s.masters[n].extra/2
	if s.jitter > 0 {
		d += time.Duration(s.random.Int64N(int64(s.jitter/2) + 1))
	}
	return d
}

// line is a line of the story, which is told only if somebody asks for it.
type line struct {
	at     time.Duration
	format string
	args   []any
}

func (l line) String() string {
	return fmt.Sprintf("%10.3f ms ", float64(l.at-time.Second)/1e6) + fmt.Sprintf(l.format, l.args...)
}

// maxLog is how many lines are kept, the last ones.
const maxLog = 1000

func (s *sim) tell(format string, args ...any) {
	if len(s.log) == 2*maxLog {
		s.log = append(s.log[:0], s.log[maxLog:]...)
	}
	s.log = append(s.log, line{s.now, format, args})
}

func (s *sim) fail(format string, args ...any) {
	s.tell(format, args...)
	s.seen.wrong = append(s.seen.wrong, fmt.Sprintf(format, args...))
}

// op is what a lane sends: one of a swap, a claim and a beat.
type op struct {
	swap  *Swap
	claim *ClaimOp
	beat  Sign
	taken func(Reply) // takes the answer, on the client; nil for none
}

// lane is a client's one connection to a master: one pipeline at a time, ops in the order in which they were submitted.
type lane struct {
	s      *sim
	c      *simClient
	n      int
	state  string
	queue  []op
	flight []op          // sent and not answered
	life   int           // connections so far
	heard  time.Duration // when the last message of this master was published: they arrive in order
}

func (l *lane) submit(o op) {
	if l.s.masters[l.n].down && len(l.flight) == 0 && o.taken != nil {
		taken := o.taken
		l.s.plan(l.s.after(l.s.trip), func() { taken(Reply{Refused: true}) }) // the breaker is open
		if o.swap == nil || o.swap.Out == "" {
			return
		}
		o = op{swap: &Swap{Out: o.swap.Out}} // a give-back is owed
	}
	l.queue = append(l.queue, o)
	l.flush()
}

// flush sends what is queued as one pipeline.
func (l *lane) flush() {
	if len(l.flight) > 0 || len(l.queue) == 0 || l.s.masters[l.n].down {
		return
	}
	batch, life := l.queue, l.life
	l.queue, l.flight = nil, batch
	entered := map[string]bool{}
	for _, o := range batch {
		if o.swap == nil {
			continue
		}
		if entered[o.swap.Out] {
			o.swap.Hand = false // its answer is not seen yet (rule H17)
		}
		if o.swap.In != nil {
			entered[o.swap.In.Holder] = true
		}
	}
	l.s.plan(l.s.after(l.s.way(l.n)), func() {
		if life == l.life && !l.s.masters[l.n].down {
			l.execute(batch)
		}
	})
}

// execute runs a pipeline on the master, and sends the answers.
func (l *lane) execute(batch []op) {
	s, m, life := l.s, l.s.masters[l.n], l.life
	replies := make([]Reply, len(batch))
	for i, o := range batch {
		s.seen.executed++
		var notices []Notice
		switch {
		case o.swap != nil:
			o.swap.State = l.state
			if s.drop == H11Ticket && o.swap.In != nil {
				o.swap.In.Ticket = int64(s.now / time.Microsecond)
			}
			replies[i], notices = m.Swap(s.now, *o.swap)
			if replies[i].Released && m.Java {
				s.plan(s.after(s.way(l.n)), s.redisson.woken)
			}
		case o.claim != nil:
			o.claim.State = l.state
			replies[i], notices = m.Claim(s.now, *o.claim)
		default:
			s.seen.beats++
			m.Beat(s.now, l.c.id, o.beat)
		}
		if s.sharedCounter && s.random.IntN(4) == 0 {
			m.Counter++
		}
		s.publish(l.n, notices)
	}
	s.plan(s.after(s.way(l.n)), func() {
		if life == l.life && !l.c.dead {
			l.flight = nil
			l.answer(batch, replies)
			l.flush()
		}
	})
}

func (l *lane) answer(batch []op, replies []Reply) {
	for i, o := range batch {
		if replies[i].Refused {
			l.state = fmt.Sprint(l.s.masters[l.n].states) // the new connection names the record state of a master that votes
		}
		if o.taken != nil {
			o.taken(replies[i])
		}
	}
}

// publish sends what master n says to its subscribers. One subscription's messages arrive in order, or not at all.
func (s *sim) publish(n int, notices []Notice) {
	for _, notice := range notices {
		for _, c := range s.clients {
			if c.id != notice.Client {
				continue
			}
			if !s.masters[n].reaches[c.id] || !s.quiet && s.random.Float64() < s.lost {
				s.seen.lost++
				s.tell("a message of master %d to %s is lost", n+1, c.id)
				continue
			}
			at := max(s.after(s.way(n)), c.lanes[n].heard)
			c.lanes[n].heard = at
			s.plan(at, func() { c.message(n, notice.Hand) })
		}
	}
}
