// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
)

// near is how far apart two readings of one TTL or clock may be: both masters
// run in real time, one after the other. Two TTLs that differ do so by 10 s or more.
const near = 8 * time.Second

// pair is a real master and one in memory that get the same operations.
type pair struct {
	t           *testing.T
	rnd         *rand.Rand
	real        *redis.Client
	pubsub      *redis.PubSub
	mem         *Master
	clock       clock.Clock
	nodes       [2]node.Node // of real and mem
	ch          chan *protocol.Op
	listens     chan struct{} // gets a token for each subscription that is active
	said        []string      // what mem published since the last look
	handed      int           // how many hands were among what was published before
	checksState bool
	java        bool                   // a client of Redisson's listens
	state       membership.RecordState // of a voting record
	// tickets that the masters gave, by holder and lock: [real, mem].
	tickets map[string][2]int64
	log     []string
	seen    map[string]int // kinds of operation with their answers
}

func (p *pair) Receive(op *protocol.Op) { p.ch <- op }

// newPair makes both masters, with one identity, so that their record states are the same.
func newPair(t *testing.T, s *localredis.Server, rnd *rand.Rand, checksState, java bool) *pair {
	t.Helper()
	p := &pair{t: t, rnd: rnd, clock: clock.Monotonic(), ch: make(chan *protocol.Op, maxBurst), listens: make(chan struct{}), checksState: checksState, java: java,
		mem: NewMaster("mem"), tickets: make(map[string][2]int64)}
	p.real = redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = p.real.Close() })
	if err := p.real.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	patterns := []string{"redlock:*", "mark"}
	if java {
		patterns = []string{"*"}
	}
	p.pubsub = p.real.PSubscribe(t.Context(), patterns...)
	t.Cleanup(func() { _ = p.pubsub.Close() })
	if _, err := p.pubsub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mem.Subscribe(func(channel, payload string) {
		if !ofCheck(channel) && (java || strings.HasPrefix(channel, "redlock:")) {
			p.said = append(p.said, channel+" "+payload)
		}
	})

	var id protocol.Identity
	n, err := node.New(p.real, p.config())
	if err != nil {
		t.Fatal(err)
	}
	p.nodes[0] = n
	p.bind(n, func(got protocol.Identity) error { id = got; return nil })
	p.mem.SetIdentity(id)
	m := p.mem.Node(p.config())
	p.nodes[1] = m
	p.bind(m, func(got protocol.Identity) error {
		if !reflect.DeepEqual(got, id) {
			return fmt.Errorf("it says %+v of itself, want %+v", got, id)
		}
		return nil
	})
	p.state = membership.RecordState{Epoch: membership.Epoch{Number: 1, ID: 0xe}, Incarnation: id.Incarnation(), Phase: membership.Voting}
	for _, n := range p.nodes {
		n.Enter(p.state.Epoch.String(), nil, time.Hour)
	}
	for _, n := range p.nodes { // the masters pass over the others, who do not listen
		n.Subscribe(protocol.Wake(conformClients[0]))
		<-p.listens
	}
	if java {
		for _, name := range conformLocks {
			for _, mode := range []protocol.Mode{protocol.Plain, protocol.Write} {
				for _, n := range p.nodes {
					n.Subscribe(protocol.NewLock(name, mode).Channel)
					<-p.listens
				}
			}
		}
	}
	return p
}

// config is that of both nodes: on a busy host no answer is late, and nothing is turned away.
func (p *pair) config() node.Config {
	return node.Config{Clock: p.clock, DialTimeout: 10 * time.Second, IOTimeout: 10 * time.Second, StallAfter: time.Hour}
}

func (p *pair) bind(n node.Node, admit func(protocol.Identity) error) {
	n.Bind(protocol.Binding{CheckRecordState: p.checksState, Drift: clock.DefaultDrift(), Admit: admit, Subscribed: func(string) { p.listens <- struct{}{} }})
	p.t.Cleanup(func() { _ = n.Close() })
	if err := n.Ready(context.Background()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) ask(i int, req protocol.Request) protocol.Reply {
	op := &protocol.Op{Request: &req, To: p}
	if !p.nodes[i].Submit(op) {
		p.t.Fatalf("not submitted: %v", op.Reply.Err)
	}
	return (<-p.ch).Reply
}

// The in-memory master answers, writes and publishes what a real one does,
// whatever it is asked. Each of what may happen must have happened three times: the operations and their outcomes are the same in each run of the
// list, in which the rarest comes 13 times.
func TestMaster_randomOps_sameAsRedis(t *testing.T) {
	needs.EveryServer(t)
	s, err := localredis.Start(t.Context(), localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	seen := make(map[string]int)
	for seed := range replay.Many(t, 12) {
		checksState := seed%3 > 0
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			p := newPair(t, s, replay.RNG(seed), checksState, seed%4 == 3)
			p.seen = seen
			if checksState {
				p.both(protocol.Request{Kind: protocol.CompareAndSetRecord, Deadline: p.clock.Elapsed() + time.Minute, CompareAndSet: &protocol.CompareAndSet{If: []string{"state", ""}, Set: []string{"state", p.state.String()}}})
			}
			p.readersGoTogether()
			for range 500 {
				switch p.rnd.IntN(10) {
				case 0:
					p.meddle()
				case 1:
					p.burst(p.randomOps())
				case 2:
					p.turns()
				default:
					p.both(p.op())
				}
			}
		})
	}
	t.Logf("%v", seen)
	for _, want := range []string{"acquire granted", "acquire held", "acquire refused", "queue ahead", "queue foreign",
		"release granted", "release absent", "handed", "handed in a burst", "confirm granted", "confirm absent", "confirm refused",
		"top-up granted", "top-up held", "top-up refused", "extend granted", "extend intact", "extend refused",
		"compare-and-set record granted", "compare-and-set record refused", "votes in one call"} {
		if seen[want] < 3 && replay.Listed() && !t.Failed() {
			t.Errorf("%s was seen %d times: the runs prove nothing of it", want, seen[want])
		}
	}
}

// readersGoTogether is what is too rare to be left to chance: two readers queue
// behind a writer, and the first of them wakes the second.
func (p *pair) readersGoTogether() {
	write, read := protocol.NewLock("l", protocol.Write), protocol.NewLock("l", protocol.Read)
	soon := p.clock.Elapsed() + time.Minute
	ask := func(client string) {
		p.both(protocol.Request{Kind: protocol.Acquire, Lock: read, Holder: client + ":1", TTL: time.Minute, Deadline: soon,
			Wait: &protocol.Wait{Liveness: time.Minute}})
	}
	p.both(protocol.Request{Kind: protocol.Acquire, Lock: write, Holder: foreignHolder, TTL: time.Minute, Deadline: soon})
	ask(conformClients[0])
	ask(conformClients[1])
	p.both(protocol.Request{Kind: protocol.Release, Lock: write, Holder: foreignHolder, Deadline: soon})
	ask(conformClients[0])
	ask(conformClients[1])
	p.command("del", "l")
}

func one[T any](p *pair, of ...T) T { return of[p.rnd.IntN(len(of))] }

var (
	conformClients = []string{"11111111-1111-8111-8111-111111111111", "22222222-2222-8222-8222-222222222222", "33333333-3333-8333-8333-333333333333"}
	foreignHolder  = "44444444-4444-4444-8444-444444444444:1"
	conformLocks   = []string{"l", "{tag}l"}
)

// op is a random operation: by right and wrong holders, in and out of turn, and
// with so few of all that replays are common.
func (p *pair) op() protocol.Request {
	client := one(p, conformClients...)
	l := protocol.NewLock(one(p, conformLocks...), one(p, protocol.Plain, protocol.Write, protocol.Read, protocol.Read))
	op := protocol.Request{Lock: l, Holder: fmt.Sprintf("%s:%d", client, 1+p.rnd.IntN(2)), TTL: time.Duration(20+p.rnd.IntN(4)*20) * time.Second}
	if held := p.mem.Holder(l.Name); p.rnd.IntN(2) == 0 && len(held) == len(op.Holder) && l.Mode == protocol.Plain {
		op.Holder = held
	}
	op.Start = p.clock.Elapsed() // one for both: it is the stamp
	op.Deadline = op.Start + time.Minute
	switch k := p.rnd.IntN(21); {
	case k < 8:
		op.Kind, op.Token = protocol.Acquire, p.floor()
		if p.rnd.IntN(3) > 0 {
			op.Wait = &protocol.Wait{Liveness: time.Minute, Unfair: p.rnd.IntN(4) == 0, Retry: p.rnd.IntN(2) == 0, Again: p.rnd.IntN(4) == 0, Only: p.rnd.IntN(4) == 0,
				Ticket: one(p, 0, 0, given, int64(1+p.rnd.IntN(5)))}
		}
		if l.Mode == protocol.Read && p.rnd.IntN(2) == 0 {
			op.JoinWrite = protocol.NewLock(l.Name, protocol.Write).Field(op.Holder)
		}
	case k < 12:
		op.Kind, op.Leaves = protocol.Release, p.rnd.IntN(5) == 0
		if p.rnd.IntN(3) > 0 {
			op.Hand, op.Token = time.Minute, p.floor()
		}
		if p.rnd.IntN(2) == 0 {
			op.Lift = one(p, op.Holder, p.rester(l))
		}
	case k < 14:
		op.Kind, op.Token = protocol.Confirm, p.floor()
		if p.rnd.IntN(4) == 0 {
			op.Rest = 30 * time.Second
		}
	case k < 15:
		op.Kind, op.Count = protocol.TopUp, 1+p.rnd.IntN(3)
	case k < 17:
		op.Kind = protocol.Extend
		for range 1 + p.rnd.IntN(3) {
			it := protocol.NewLock(one(p, conformLocks...), one(p, protocol.Plain, protocol.Write, protocol.Read))
			op.Items = append(op.Items, protocol.Item{Lock: it, Count: p.rnd.IntN(3),
				Holder: fmt.Sprintf("%s:%d", one(p, conformClients...), 1+p.rnd.IntN(2))})
		}
	case k < 18:
		op.Kind, op.Holder, op.TTL = protocol.Heartbeat, client, time.Minute
	case k < 19:
		op.Kind = protocol.ReadRecord
		if p.rnd.IntN(2) == 0 {
			op.Fields = []string{"state", "epoch", "none"}
		}
	case k < 20:
		op.Kind, op.CompareAndSet = protocol.CompareAndSetRecord, p.swap()
	default:
		op.Kind, op.Token, op.Voted = protocol.Adopt, p.floor(), one(p, p.state.String(), p.state.String(), "")
		op.From, op.Holder = op.Holder, fmt.Sprintf("%s:%d", client, 3+p.rnd.IntN(2))
	}
	return op
}

// rester is the holder that has the lock rest.
func (p *pair) rester(l *protocol.Lock) string {
	put := ""
	_ = p.mem.Do(func(db *DB) { put, _ = db.Get(l.Rest) })
	_, holder, _ := strings.Cut(put, " ")
	return holder
}

// floor is a proposed token: far below, about, and far above the masters' clock.
func (p *pair) floor() int64 {
	now := time.Now()
	return one(p, 1, 7, int64(p.rnd.IntN(100)), now.UnixMicro(), now.Add(30*time.Second).UnixMicro(), now.Add(time.Hour).UnixMicro())
}

// given stands for the ticket that each master gave.
const given = -1

// swap sets the record to some state, and in most cases back to the voting one.
func (p *pair) swap() *protocol.CompareAndSet {
	from, to := p.mem.field(protocol.RecordKey, "state"), p.state
	switch p.rnd.IntN(6) {
	case 0:
		to.Phase, to.Nonce = membership.Quarantined, membership.Nonce(1+p.rnd.IntN(3))
	case 1:
		to.Phase, to.Nonce, to.Ballot = membership.Retired, 5, membership.Ballot{Round: 1, Nonce: 2}
	case 2:
		from += "x"
	}
	s := &protocol.CompareAndSet{If: []string{"state", from}, Set: []string{"state", to.String(), "epoch", one(p, "text", ""),
		protocol.CounterField(p.rnd.IntN(5)), fmt.Sprint(p.rnd.IntN(1000))}}
	if p.rnd.IntN(3) == 0 {
		s.If = append(s.If, "epoch", one(p, "text", "", p.mem.field(protocol.RecordKey, "epoch")))
	}
	return s
}

// both puts op to both masters and compares everything.
func (p *pair) both(op protocol.Request) {
	p.t.Helper()
	var r [2]protocol.Reply
	wait := op.Wait
	for i := range r {
		if wait != nil && wait.Ticket == given {
			mine := *wait
			op.Wait = &mine
			op.Wait.Ticket = p.tickets[op.Holder+op.Lock.Name][i]
		}
		r[i] = p.ask(i, op)
	}
	if r[0].Ticket > 0 && r[1].Ticket > 0 {
		p.tickets[op.Holder+op.Lock.Name] = [2]int64{r[0].Ticket, r[1].Ticket}
	}
	p.log = append(p.log, describe(op, r[0]))
	if diff := differ(r[0], r[1]); diff != "" {
		p.fail("the replies differ in %s:\nredis    %+v\nnodetest %+v", diff, r[0], r[1])
	}
	p.compare()
	p.seen["handed"] += p.handed
	p.note(op, r[0])
}

// maxBurst is how many ops a burst has at most.
const maxBurst = 12

// randomOps are several acquires and releases.
func (p *pair) randomOps() (ops []protocol.Request) {
	for n := 2 + p.rnd.IntN(maxBurst-1); len(ops) < n; {
		op := p.op()
		if (op.Kind == protocol.Acquire || op.Kind == protocol.Release) && (op.Wait == nil || op.Wait.Ticket != given) {
			ops = append(ops, op)
		}
	}
	for i := range ops { // a call has one stamp, and on a busy machine one of the masters gets the ops in two calls
		ops[i].Start = ops[len(ops)-1].Start
	}
	return ops
}

// turns has a waiter queue, and whoever holds the lock then release it, twice: what is too rare to be left to chance. The second waiter
// may come together with the release.
func (p *pair) turns() {
	l := protocol.NewLock(one(p, conformLocks...), one(p, protocol.Plain, protocol.Write))
	op := func() protocol.Request {
		return protocol.Request{Lock: l, TTL: time.Minute, Token: p.floor(), Start: p.clock.Elapsed(), Deadline: p.clock.Elapsed() + time.Minute}
	}
	for i := range 2 {
		queue, release := op(), op()
		queue.Kind, queue.Holder = protocol.Acquire, one(p, conformClients...)+":"+one(p, "1", "2")
		queue.Wait = &protocol.Wait{Ticket: int64(1 + i), Liveness: time.Minute}
		release.Kind, release.Holder, release.Hand = protocol.Release, strings.TrimSuffix(p.mem.Holder(l.Name), ":write"), time.Minute
		if p.rnd.IntN(2) == 0 {
			p.burst([]protocol.Request{queue, release})
		} else {
			p.both(queue)
			p.both(release)
		}
	}
}

// burst puts several ops to each master without waiting: all but the first, as a rule, in one call of votes.lua, but not in the same
// calls on both. What comes of them must not depend on that.
func (p *pair) burst(ops []protocol.Request) {
	p.t.Helper()
	calls := p.calls()
	var replies [2][]protocol.Reply
	for i, n := range p.nodes {
		for j := range ops {
			req := ops[j]
			op := &protocol.Op{Request: &req, To: p}
			if !n.Submit(op) {
				p.t.Fatalf("not submitted: %v", op.Reply.Err)
			}
		}
		for range ops {
			replies[i] = append(replies[i], (<-p.ch).Reply)
		}
	}
	if p.calls()-calls < len(ops) {
		p.seen["votes in one call"]++
	}
	for j := range ops {
		p.log = append(p.log, "burst: "+describe(ops[j], replies[0][j]))
	}
	for j := range ops {
		if diff := differ(replies[0][j], replies[1][j]); diff != "" {
			p.fail("the replies to op %d of %d of a burst differ in %s:\nredis    %+v\nnodetest %+v", j+1, len(ops), diff, replies[0][j], replies[1][j])
		}
	}
	p.compare()
	p.seen["handed in a burst"] += p.handed
}

// calls is how many scripts the real master was asked to run.
func (p *pair) calls() int {
	p.t.Helper()
	stats, err := p.real.InfoMap(context.Background(), "commandstats").Result()
	if err != nil {
		p.t.Fatal(err)
	}
	line, _, _ := strings.Cut(stats["Commandstats"]["cmdstat_evalsha"], ",")
	n, _ := strconv.Atoi(strings.TrimPrefix(line, "calls="))
	return n
}

func (p *pair) note(op protocol.Request, r protocol.Reply) {
	p.seen[op.Kind.String()+" "+r.Outcome.String()]++
	if r.Ahead > 0 {
		p.seen["queue ahead"]++
	}
	if r.Foreign {
		p.seen["queue foreign"]++
	}
	if slices.Contains(r.Intact, true) {
		p.seen["extend intact"]++
	}
}

func describe(op protocol.Request, r protocol.Reply) string {
	s := fmt.Sprintf("%v of %s, token %d, count %d", op.Kind, op.Holder, op.Token, op.Count)
	if op.Lock != nil {
		s += fmt.Sprintf(", %s/%c", op.Lock.Name, op.Lock.Mode)
	}
	if op.Wait != nil {
		s += fmt.Sprintf(", %+v", *op.Wait)
	}
	if op.Kind == protocol.Release {
		s += fmt.Sprintf(", hand %v, leaves %v, lifts %q", op.Hand, op.Leaves, op.Lift)
	}
	if op.CompareAndSet != nil {
		s += fmt.Sprintf(", %+v", *op.CompareAndSet)
	}
	return s + fmt.Sprintf(": %+v", r)
}

// meddle does to both what others may do, or time: keys that end, foreign types,
// Redisson's holders, keys without TTL, counters that are none.
func (p *pair) meddle() {
	lock := one(p, conformLocks...)
	queue := "redlock:queue:{l}"
	if lock != "l" {
		queue = "redlock:queue::" + lock
	}
	counter := protocol.CounterField(p.rnd.IntN(protocol.Counters))
	for i := range protocol.Counters { // one that is in use, if there is one
		if n := (i + p.rnd.IntN(protocol.Counters)) % protocol.Counters; p.mem.field(protocol.RecordKey, protocol.CounterField(n)) != "" {
			counter = protocol.CounterField(n)
			break
		}
	}
	keys := p.mem.Keys()
	lives := slices.DeleteFunc(slices.Clone(keys), func(k string) bool {
		return !strings.HasPrefix(k, "redlock:alive:") && !strings.HasSuffix(k, ":rwlock_timeout:1")
	})
	switch k := p.rnd.IntN(16); {
	case k >= 12 && len(lives) > 0: // a waiter or a reader dies
		p.command("del", one(p, lives...))
	case k < 4 && len(keys) > 0: // the more often, the less the rest stays stuck
		p.command("del", one(p, keys...))
	case k == 4 && len(keys) > 0:
		p.command("set", one(p, keys...), "a string")
	case k == 5:
		p.command("set", one(p, lock, queue, protocol.RecordKey), "a string")
	case k == 6:
		p.command("zadd", one(p, lock, queue, protocol.RecordKey), one(p, "0", "1", "1.5", "-3", "inf"), "member")
	case k == 7:
		p.command("hset", lock, foreignHolder, "1")
	case k == 8:
		p.command("hset", lock, "mode", one(p, "read", "write"))
	case k == 9:
		p.command("hset", protocol.RecordKey, counter, one(p, "abc", "-5", "9007199254740989", "9007199254740990", "12"))
	case k == 10 && len(keys) > 0:
		p.command("pexpire", one(p, keys...), "30000")
	default:
		p.command("hset", queue, "field", "value")
	}
}

// field reads one field of a hash, "" when there is none or the key is no hash.
func (m *Master) field(key, field string) (val string) {
	_ = m.Do(func(db *DB) { val, _ = db.HGet(key, field) })
	return val
}

// command runs a plain command on both. An error (of a wrong type) is fine if both
// have it.
func (p *pair) command(words ...string) {
	p.t.Helper()
	p.log = append(p.log, strings.Join(words, " "))
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	realErr := p.real.Do(context.Background(), args...).Err()
	var memErr error
	_ = p.mem.Do(func(db *DB) { memErr, _ = db.call(words[0], words[1:]).(error) })
	if (realErr == nil) != (memErr == nil) {
		p.fail("redis says %v, nodetest %v", realErr, memErr)
	}
	p.compare()
}

// differ names what is not the same in two replies, "" when nothing is.
func differ(a, b protocol.Reply) string {
	switch {
	case a.Outcome != b.Outcome:
		return "Class"
	case (a.Remaining - b.Remaining).Abs() > near:
		return "Remaining"
	case a.Token != b.Token:
		return "Token"
	case !sameScore(float64(a.Ticket), float64(b.Ticket)):
		return "Ticket"
	case a.Ahead != b.Ahead:
		return "Ahead"
	case a.Foreign != b.Foreign:
		return "Foreign"
	case !slices.Equal(a.Intact, b.Intact):
		return "Intact"
	case !slices.Equal(a.Denied, b.Denied):
		return "Denied"
	case !sameRecord(a.Record, b.Record):
		return "Record"
	case errorText(a.Err) != errorText(b.Err):
		return "Err"
	}
	return ""
}

// sameScore: tickets that a master gave are times, others are told to both.
func sameScore(a, b float64) bool {
	const stamp = 1e15
	return a == b || a > stamp && b > stamp && max(a-b, b-a) < float64(near.Microseconds())
}

// errorText leaves out the node's name, and of Redis's own errors all but the code:
// the rest says where in the script.
func errorText(err error) string {
	var state *protocol.RecordStateError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &state):
		return "state " + state.Got
	case errors.Is(err, node.ErrRecord):
		return errors.Unwrap(err).Error()
	}
	word, _, _ := strings.Cut(errors.Unwrap(err).Error(), " ")
	if strings.HasPrefix(word, "user_script:") {
		return "ERR" // Redis 6.2 gives no code where a script ended by an error of its own
	}
	return word
}

// image is one key: its fields or members in order, and its TTL in ms.
type image struct {
	Key, Type string
	TTL       int64
	Items     []string
}

const dumpScript = `local out = {}
for _, k in ipairs(redis.call('keys', '*')) do
  local t = redis.call('type', k).ok
  local items
  if t == 'hash' then items = redis.call('hgetall', k)
  elseif t == 'zset' then items = redis.call('zrange', k, 0, -1, 'withscores')
  else items = {redis.call('get', k)} end
  out[#out + 1] = {Key = k, Type = t, TTL = redis.call('pttl', k), Items = items}
end
return #out > 0 and cjson.encode(out) or '[]'`

func (p *pair) realKeys() []image {
	text, err := p.real.Eval(context.Background(), dumpScript, nil).Text()
	if err != nil {
		p.t.Fatal(err)
	}
	var keys []image
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		p.t.Fatal(err)
	}
	slices.SortFunc(keys, func(a, b image) int { return strings.Compare(a.Key, b.Key) })
	return keys
}

func (p *pair) memKeys() (keys []image) {
	_ = p.mem.Do(func(db *DB) {
		for _, k := range db.Keys() {
			im := image{Key: k, TTL: db.PTTL(k)}
			switch v := db.find(k); {
			case isHash(v):
				im.Type = "hash"
				for _, f := range v.hash.order {
					im.Items = append(im.Items, f, v.hash.vals[f])
				}
			case isZSet(v):
				im.Type = "zset"
				for _, m := range v.zset {
					im.Items = append(im.Items, m.name, strconv.FormatFloat(m.score, 'f', -1, 64))
				}
			default:
				im.Type, im.Items = "string", []string{*v.str}
			}
			keys = append(keys, im)
		}
	})
	return keys
}

// compare compares all keys, and all messages since the last time.
func (p *pair) compare() {
	p.t.Helper()
	a, b := p.realKeys(), p.memKeys()
	if !slices.EqualFunc(a, b, sameImage) {
		p.fail("the keys differ:\nredis    %v\nnodetest %v", a, b)
	}
	said := p.realSaid()
	if !slices.Equal(said, p.said) {
		p.fail("the messages differ:\nredis    %q\nnodetest %q", said, p.said)
	}
	p.handed = 0
	for _, message := range said {
		if strings.Contains(message, "\x00") {
			p.handed++
		}
	}
	p.said = nil
}

func sameImage(a, b image) bool {
	if a.Key != b.Key || a.Type != b.Type || len(a.Items) != len(b.Items) ||
		min(a.TTL, 0) != min(b.TTL, 0) || max(a.TTL-b.TTL, b.TTL-a.TTL) > near.Milliseconds() {
		return false
	}
	switch {
	case a.Key == protocol.RecordKey && a.Type == "hash": // large, which Redis does not keep in order
		return sameRecord(asMap(a.Items), asMap(b.Items))
	case a.Type != "zset":
		return slices.Equal(a.Items, b.Items)
	}
	return slices.EqualFunc(a.Items, b.Items, func(x, y string) bool {
		f, errX := strconv.ParseFloat(x, 64)
		g, errY := strconv.ParseFloat(y, 64)
		return x == y || errX == nil && errY == nil && sameScore(f, g)
	})
}

// sameRecord allows for two clocks: latest is TIME and a minute.
func sameRecord(a, b map[string]string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	if a["latest"] != "" && b["latest"] != "" {
		delete(a, "latest")
		delete(b, "latest")
	}
	return maps.Equal(a, b)
}

func asMap(items []string) map[string]string {
	m := make(map[string]string)
	for i := 0; i+1 < len(items); i += 2 {
		m[items[i]] = items[i+1]
	}
	return m
}

// ofCheck: a node that connects tries whether it may publish to these channels.
func ofCheck(channel string) bool {
	return strings.Contains(channel, "redlock:check") || channel == protocol.Wake("check")
}

// realSaid is what the real master published since the last time.
func (p *pair) realSaid() (said []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.real.Publish(ctx, "mark", "").Err(); err != nil {
		p.t.Fatal(err)
	}
	for {
		msg, err := p.pubsub.ReceiveMessage(ctx)
		if err != nil {
			p.t.Fatal(err)
		}
		if msg.Channel == "mark" {
			return said
		}
		if ofCheck(msg.Channel) {
			continue
		}
		said = append(said, msg.Channel+" "+msg.Payload)
	}
}

func (p *pair) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf(format+"\nafter\n%s", append(args, strings.Join(p.log[max(0, len(p.log)-2*maxBurst):], "\n"))...)
}
