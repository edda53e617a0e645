// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node/localredis"
)

var (
	//go:embed testdata/common.lua
	commonLua string
	//go:embed testdata/swap.lua
	swapLua string
	//go:embed testdata/claim.lua
	claimLua string
)

// prototype drives a real Redis by the prototype's scripts.
type prototype struct {
	ctx         context.Context
	c           *redis.Client
	swap, claim *redis.Script
	subs        map[string]*redis.PubSub // by client; javaChannel is Redisson's
}

const (
	prototypeLock = "lock"
	javaChannel   = "redisson_lock__channel:{lock}"
	lastMessage   = "that was all"
)

func startPrototype(t *testing.T) *prototype {
	t.Helper()
	servers, err := localredis.StartN(t.Context(), 1, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &prototype{
		ctx: t.Context(), c: redis.NewClient(&redis.Options{Addr: servers[0].Addr()}),
		swap: redis.NewScript(commonLua + swapLua), claim: redis.NewScript(commonLua + claimLua), subs: map[string]*redis.PubSub{},
	}
	t.Cleanup(func() {
		for _, sub := range p.subs {
			_ = sub.Close()
		}
		_ = p.c.Close()
		_ = servers[0].Close()
	})
	return p
}

// reset makes the master new.
func (p *prototype) reset() error {
	for channel := range p.subs {
		if err := p.subscribe(channel, false); err != nil {
			return err
		}
	}
	return p.c.FlushAll(p.ctx).Err()
}

func memberOf(p Place) string {
	return fmt.Sprintf("%s/%s%d", p.Holder, pick(p.Read, "r", "x"), ShortTTL(p.TTL).Milliseconds())
}

func signOf(s Sign) string { return fmt.Sprintf("%d%s", s.Stamp, mark(s.Deaf, "w")) }

func (p *prototype) run(script *redis.Script, ttl time.Duration, args ...any) (r Reply, err error) {
	v, err := script.Run(p.ctx, p.c, []string{prototypeLock, "redlock:queue:{lock}", "redlock:node"}, args...).Slice()
	if err != nil {
		return r, err
	}
	var n [5]int64
	for i, word := range v {
		n[i], _ = word.(int64)
	}
	r.Released, r.Left = n[0]&1 > 0, n[0]&2 > 0
	switch {
	case len(v) == 1:
	case v[1] == "STATE":
		r.Refused = true
	case n[1] > 0 && n[4] == 1:
		r.Answer = Answer{Standing: Voted, Vote: n[1], Ahead: int(n[2])}
	case n[1] > 0:
		r.Answer = Answer{Standing: Voted, Vote: n[1], Ahead: int(n[2]), TTL: ttl}
	case n[2] < 0:
		r.Answer = Answer{Standing: Gone, Held: time.Duration(-1-n[1]) * ms, Stranger: n[3] == 1}
	default:
		r.Answer = Answer{Standing: Queued, Ahead: int(n[2]), Held: time.Duration(-1-n[1]) * ms, Stranger: n[3] == 1}
	}
	return r, nil
}

func (p *prototype) Swap(op Swap) (Reply, error) {
	out, in, place := "", "", Place{}
	if op.Out != "" {
		out = memberOf(Place{Holder: op.Out, Read: op.OutRead, TTL: PathTTL})
	}
	if op.In != nil {
		place = *op.In
		in = memberOf(place)
	}
	return p.run(p.swap, place.TTL, op.State, time.Hour.Milliseconds(), signOf(op.Sign), op.Proposal, out, pick(op.Hand, "1", "0"),
		in, place.Ticket, place.TTL.Milliseconds(), pick(op.Try, "t", "q"))
}

func (p *prototype) Claim(op ClaimOp) (Reply, error) {
	ttl := op.Place.TTL
	return p.run(p.claim, ttl, op.State, memberOf(op.Place), op.Place.Ticket, ttl.Milliseconds(), op.Proposal, op.Token)
}

// Published reads each subscription up to a message of its own.
func (p *prototype) Published() (all []Notice, err error) {
	for channel, sub := range p.subs {
		client, ours := strings.CutPrefix(channel, "redlock:wake:")
		if !ours {
			continue
		}
		if err := p.c.Publish(p.ctx, channel, lastMessage).Err(); err != nil {
			return nil, err
		}
		for m := ""; m != lastMessage; {
			got, err := sub.ReceiveMessage(p.ctx)
			if err != nil {
				return nil, err
			}
			if m = got.Payload; m != "" && m != lastMessage {
				all = append(all, noticeOf(client, m))
			}
		}
	}
	return all, nil
}

// noticeOf reads a message.
func noticeOf(client, payload string) Notice {
	f := strings.Split(payload, "\x00")
	if len(f) == 1 {
		return Notice{Client: client}
	}
	var n [4]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(f[i], 10, 64)
	}
	return Notice{client, Hand{fmt.Sprintf("%s:%d", client, n[0]), n[1], time.Duration(n[2]), time.Duration(n[3]) * ms}}
}

func (p *prototype) Beat(client string, sign Sign) error {
	return p.c.Set(p.ctx, "redlock:alive:"+client, signOf(sign), time.Hour).Err()
}

func (p *prototype) Lapse(client string) error {
	return p.c.Del(p.ctx, "redlock:alive:"+client).Err()
}

func (p *prototype) Expire(holder string) error {
	p.c.HDel(p.ctx, prototypeLock, holder)
	p.c.Del(p.ctx, "{lock}:"+holder+":rwlock_timeout:1")
	fields, err := p.c.HKeys(p.ctx, prototypeLock).Result()
	if len(fields) == 1 && fields[0] == "mode" {
		err = p.c.Del(p.ctx, prototypeLock).Err()
	}
	return err
}

func (p *prototype) Listen(client string, on bool) error {
	return p.subscribe("redlock:wake:"+client, on)
}

func (p *prototype) JavaWaits(on bool) error { return p.subscribe(javaChannel, on) }

// subscribe returns when the server has noticed.
func (p *prototype) subscribe(channel string, on bool) error {
	if on {
		p.subs[channel] = p.c.Subscribe(p.ctx, channel)
		_, err := p.subs[channel].Receive(p.ctx)
		return err
	}
	_ = p.subs[channel].Close()
	delete(p.subs, channel)
	for {
		n, err := p.c.PubSubNumSub(p.ctx, channel).Result()
		if err != nil || n[channel] == 0 {
			return err
		}
	}
}

func (p *prototype) JavaHolds(on bool) (bool, error) {
	if !on {
		n, err := p.c.HDel(p.ctx, prototypeLock, stranger).Result()
		return n == 1, err
	}
	if p.c.Exists(p.ctx, prototypeLock).Val() == 1 {
		return false, nil
	}
	p.c.HSet(p.ctx, prototypeLock, stranger, 1)
	return true, p.c.PExpire(p.ctx, prototypeLock, PathTTL).Err()
}

func (p *prototype) SetState(state string) error {
	return p.c.HSet(p.ctx, "redlock:node", "state", state).Err()
}

// TestReplay_prototypeScripts_agree shows that README.md can be built as Lua, and that Paths can be replayed on a
// real Redis: reply by reply, and message by message.
func TestReplay_prototypeScripts_agree(t *testing.T) {
	p := startPrototype(t)
	first := seed(t)
	for i, path := range Paths(first, often(60, 3000)) {
		if err := p.reset(); err != nil {
			t.Fatal(err)
		}
		if err := Replay(path, p); err != nil {
			t.Fatalf("path %d: %v", first+uint64(i), err)
		}
	}
}
