// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
)

// server is the store of a redis-server.
type server struct {
	ctx    context.Context
	c      *redis.Client
	pubsub *redis.PubSub
	hears  bool
	heard  map[string]bool // the clients whose channel is subscribed
}

// mark is a channel on which Said publishes, to know that it has read everything before.
const mark = "mark"

func startServer(t *testing.T) (*server, string) {
	t.Helper()
	s, err := localredis.Start(t.Context(), localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	at := &server{ctx: context.Background(), c: redis.NewClient(&redis.Options{Addr: s.Addr()}), heard: map[string]bool{}}
	t.Cleanup(func() { _ = at.c.Close() })
	at.pubsub = at.c.PSubscribe(at.ctx, "redlock:*")
	t.Cleanup(func() { _ = at.pubsub.Close() })
	if _, err := at.pubsub.Receive(at.ctx); err != nil {
		t.Fatal(err)
	}
	if err := at.subscribe(true, mark); err != nil {
		t.Fatal(err)
	}
	return at, s.URL()
}

// subscribe returns when the server has executed it.
func (s *server) subscribe(on bool, channels ...string) error {
	do := s.pubsub.Unsubscribe
	if on {
		do = s.pubsub.Subscribe
	}
	if err := do(s.ctx, channels...); err != nil {
		return err
	}
	for range channels {
		if _, err := s.pubsub.ReceiveTimeout(s.ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) Said() (said []votesmodel.Message, err error) {
	if err := s.c.Publish(s.ctx, mark, "").Err(); err != nil {
		return nil, err
	}
	for {
		m, err := s.pubsub.ReceiveMessage(s.ctx)
		switch {
		case err != nil:
			return nil, err
		case m.Channel == mark:
			return said, nil
		case m.Pattern == "" && protocol.IsWake(m.Channel): // once more, to the subscription of Hear
		case !ofCheck(m.Channel):
			said = append(said, votesmodel.Message{Channel: m.Channel, Text: m.Payload})
		}
	}
}

// dump returns all keys.
var dump = redis.NewScript(`local out = {}
for _, k in ipairs(redis.call('keys', '*')) do
  local t = redis.call('type', k).ok
  local items
  if t == 'hash' then items = redis.call('hgetall', k)
  elseif t == 'zset' then items = redis.call('zrange', k, 0, -1, 'withscores')
  else items = {redis.call('get', k)} end
  out[#out + 1] = {Name = k, Type = t, TTL = redis.call('pttl', k), Items = items}
end
return #out > 0 and cjson.encode(out) or '[]'`)

func (s *server) Keys() (votesmodel.Keys, error) {
	text, err := dump.Run(s.ctx, s.c, nil).Text()
	if err != nil {
		return nil, err
	}
	var found []struct {
		Name, Type string
		TTL        int64
		Items      []string
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, err
	}
	all := votesmodel.Keys{}
	for _, k := range found {
		all[k.Name] = keyOf(k.Name, k.Type, time.Duration(k.TTL)*time.Millisecond, k.Items)
	}
	return all, nil
}

func (s *server) Delete(keys ...string) error { return s.c.Del(s.ctx, keys...).Err() }

func (s *server) SetHash(key, field, value string) error {
	return s.c.HSet(s.ctx, key, field, value).Err()
}

func (s *server) Expire(key string, ttl time.Duration) error {
	return s.c.PExpire(s.ctx, key, ttl).Err()
}

func (s *server) Listen(on bool) error {
	s.hears = on
	return s.subscribe(on, redissons...)
}

func (s *server) Hear(client string, on bool) error {
	s.heard[client] = on
	if !on {
		delete(s.heard, client)
	}
	return s.subscribe(on, protocol.Wake(client))
}

// The scripts that ship do on a redis-server what the model does: all short paths, and random ones.
func TestScripts_onRedis_asTheModel(t *testing.T) {
	needs.NoRace(t, "one op at a time: the detector has nothing to see")
	needs.EveryServer(t)
	s, url := startServer(t)
	d, w := newDriver(t, s, func(cfg node.Config) node.Node {
		n, err := node.Open(url, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
	reset := func() {
		if s.hears {
			if err := s.Listen(false); err != nil {
				t.Fatal(err)
			}
		}
		for client := range s.heard {
			if err := s.Hear(client, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.c.FlushAll(s.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		d.enter(w)
	}
	for _, readers := range []bool{false, true} {
		t.Run(fmt.Sprintf("readers %t", readers), func(t *testing.T) {
			w.Readers = readers
			check(t, d, w, reset, runs{short: 2, random: 40})
		})
	}
}
