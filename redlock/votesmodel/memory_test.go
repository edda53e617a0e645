// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/lua"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock/votesmodel"
)

// memory is the store of a master in memory, which runs the scripts that ship.
type memory struct {
	m     *nodetest.Master
	java  node.Node
	hears bool
	said  []votesmodel.Message
}

// inMemory runs fn with a master in memory, whose scripts are edited. No time passes by itself.
func inMemory(t *testing.T, edit func(string) string, fn func(d *driver, w votesmodel.World, reset func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &memory{m: nodetest.NewMaster("m")}
		s.m.EditScripts(edit)
		s.m.Subscribe(func(channel, payload string) {
			if !ofCheck(channel) && (s.hears || !slices.Contains(redissons, channel)) {
				s.said = append(s.said, votesmodel.Message{Channel: channel, Text: payload})
			}
		})
		s.java = s.m.Node(node.Config{Clock: clock.Monotonic()})
		s.java.Bind(protocol.Binding{Subscribed: func(string) {}})
		t.Cleanup(func() { _ = s.java.Close() })
		d, w := newDriver(t, s, func(cfg node.Config) node.Node { return s.m.Node(cfg) })
		fn(d, w, func() {
			if s.hears {
				_ = s.Listen(false)
			}
			s.m.Flush()
			s.said = nil
			d.enter(w)
		})
	})
}

func (s *memory) Said() ([]votesmodel.Message, error) {
	said := s.said
	s.said = nil
	return said, nil
}

func (s *memory) Keys() (votesmodel.Keys, error) {
	all := votesmodel.Keys{}
	err := s.m.Do(func(db *nodetest.DB) {
		for _, name := range db.Keys() {
			kind, items := "string", []string{}
			switch {
			case name == lockName || name == protocol.RecordKey:
				kind = "hash"
				for field, value := range db.HGetAll(name) {
					items = append(items, field, value)
				}
			case strings.HasPrefix(name, "redlock:queue:"):
				kind = "zset"
				for _, member := range db.ZRange(name, -1) {
					score, _ := db.ZScore(name, member)
					items = append(items, member, strconv.FormatFloat(score, 'f', -1, 64))
				}
			default:
				value, _ := db.Get(name)
				items = append(items, value)
			}
			all[name] = keyOf(name, kind, time.Duration(db.PTTL(name))*time.Millisecond, items)
		}
	})
	return all, err
}

func (s *memory) Delete(keys ...string) error {
	return s.m.Do(func(db *nodetest.DB) {
		for _, k := range keys {
			db.Del(k)
		}
	})
}

func (s *memory) SetHash(key, field, value string) error {
	return s.m.Do(func(db *nodetest.DB) { db.HSet(key, field, value) })
}

func (s *memory) Expire(key string, ttl time.Duration) error {
	return s.m.Do(func(db *nodetest.DB) { db.PExpire(key, ttl.Milliseconds()) })
}

func (s *memory) Listen(on bool) error {
	for _, channel := range redissons {
		if on {
			s.java.Subscribe(channel)
		} else {
			s.java.Unsubscribe(channel)
		}
	}
	time.Sleep(time.Millisecond)
	synctest.Wait()
	s.hears = on
	return nil
}

// The scripts in Lua's stead: runs of the model on a master in memory. It is quick, so it makes many.
func TestScripts_inMemory_asTheModel(t *testing.T) {
	for _, readers := range []bool{false, true} {
		t.Run(fmt.Sprintf("readers %t", readers), func(t *testing.T) {
			first := seed(t)
			inMemory(t, nil, func(d *driver, w votesmodel.World, reset func()) {
				w.Readers = readers
				check(t, d, w, reset, first, runs{short: 3, random: 200})
			})
		})
	}
}

// breaks are ways to get the scripts wrong: what is in votes.lua exactly once, and what is there instead. The replay
// must find each.
var breaks = []struct{ name, sound, broken string }{
	{"H9: hands although the record state differs", "act == 'hand' and fits and free", "act == 'hand' and free"},
}

func TestScripts_broken_diverge(t *testing.T) {
	votes := lua.Source("votes")
	for _, b := range breaks {
		t.Run(b.name, func(t *testing.T) {
			if n := strings.Count(votes, b.sound); n != 1 {
				t.Fatalf("votes.lua has %q %d times", b.sound, n)
			}
			edit := func(text string) string {
				if text == votes {
					return strings.Replace(text, b.sound, b.broken, 1)
				}
				return text
			}
			inMemory(t, edit, func(d *driver, w votesmodel.World, reset func()) {
				for i := range uint64(400) {
					w.Readers = i%2 == 1
					reset()
					err := votesmodel.Replay(w, votesmodel.Paths(w, 1+i, 1, 60)[0], d)
					var diverged *votesmodel.DivergenceError
					if errors.As(err, &diverged) {
						t.Logf("path %d, step %d, in its %s", 1+i, len(diverged.Path), diverged.What)
						return
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				t.Error("no path finds it")
			})
		})
	}
}
