// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// The maximum TTL of the scenes.
const waitTTL = 3 * time.Second

// adviceMargin is what the commands themselves may take, servers that are started, and a client that is opened. It is less than
// waitTTL: a wait that nobody named is seen.
const adviceMargin = 2 * time.Second

// advised is a scene: masters of which something is wrong, and somebody who does what the program says.
type advised struct {
	t       testing.TB
	servers []*localredis.Server
	urls    []string // what the program is given
	ttl     time.Duration
	kept    *redis.Client // a connection to master 2 from before
	named   time.Duration // the longest time that was said until it works
	said    []string      // what was heard
	init    *process      // that was advised
	since   time.Time     // when somebody began to do what was said
}

// joined are the names of masters as a list has them.
func joined(servers []*localredis.Server) string {
	var names []string
	for _, s := range servers {
		names = append(names, s.Addr())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (a *advised) list() string { return strings.Join(a.urls, ",") }

// status calls status, and returns its JSON.
func (a *advised) status() (s statusJSON) {
	a.t.Helper()
	code, stdout, stderr := cli(a.t, "status", "--json", "--max-ttl", a.ttl.String(), "--nodes", a.list())
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || s.ExitCode != code {
		a.t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	a.hears(s.Text)
	return s
}

// hears takes note of what is said, and of the times in it.
func (a *advised) hears(text string) {
	a.t.Helper()
	a.said = append(a.said, text)
	for _, m := range inTime.FindAllStringSubmatch(text, -1) {
		d, err := time.ParseDuration(m[1])
		must(a.t, err)
		a.named = max(a.named, d)
	}
}

// inTime finds the times after which something is said to work.
var inTime = regexp.MustCompile(`(?:votes in about|for another|ends, about|takes|wait) ([0-9.]+(?:ms|s))`)

var command = regexp.MustCompile(`redlock (init|status|reconfigure|cancel)((?: --[a-z-]+(?: (?:(?:(?:NEW|OLD)_)?URLS|[0-9][^ ;,:]*))?)*)`)

// obey runs the first advised command of that kind, as it stands there, with the lists in place of URLS. An init goes on in the background: its
// last master may vote long after locks work.
func (a *advised) obey(said, kind string, to ...string) {
	a.t.Helper()
	for _, m := range command.FindAllStringSubmatch(said, -1) {
		if m[1] != kind {
			continue
		}
		words := strings.Fields(m[1] + m[2])
		for i, list := 0, append([]string{a.list()}, to...); i < len(words); i++ {
			if strings.HasSuffix(words[i], "URLS") {
				words[i], list = list[0], list[1:]
			}
		}
		a.since = time.Now() // servers are started before that
		if kind == "init" {
			a.init = program(a.t, words...).start()
			return
		}
		code, stdout, stderr := cli(a.t, words...)
		if code != exitOK {
			a.t.Errorf("%v: exit code %d: %s%s", words, code, stdout, stderr)
		}
		a.said = append(a.said, fmt.Sprintf("%s took %v", words[0], time.Since(a.since)))
		return
	}
	a.t.Errorf("no command %s in %q", kind, said)
}

// works locks with the list, after what was advised was done.
func (a *advised) works(urls []string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 20*time.Second)
	defer cancel()
	c, err := redlock.Open(ctx, urls, redlock.WithMaxTTL(a.ttl), redlock.WithNodeTimeout(time.Second))
	for a.init != nil && errors.Is(err, redlock.ErrNeedsInit) { // it has not begun
		time.Sleep(10 * time.Millisecond)
		c, err = redlock.Open(ctx, urls, redlock.WithMaxTTL(a.ttl), redlock.WithNodeTimeout(time.Second))
	}
	must(a.t, err)
	defer c.Close()
	lease, err := c.Mutex("x").Lock(ctx)
	must(a.t, err)
	must(a.t, lease.Unlock(ctx))
}

// interrupt ends a command with Ctrl-C when it has said something, and returns what it said.
func (a *advised) interrupt(said string, words ...string) string {
	a.t.Helper()
	p := program(a.t, words...).start()
	eventually(a.t, said, func() bool { return strings.Contains(strings.Join(strings.Fields(p.stderr.String()), " "), said) })
	must(a.t, p.Process.Signal(syscall.SIGINT))
	p.wantCode(exitSignal + int(syscall.SIGINT))
	return strings.Join(strings.Fields(p.stderr.String()), " ")
}

// saves has master 2 write its data to its disk until that ends so.
func (a *advised) saves(status string) {
	a.t.Helper()
	m := direct(a.t, a.urls[2])
	eventually(a.t, "a save ends with "+status, func() bool {
		_ = m.BgSave(a.t.Context()).Err() // one may be under way
		return strings.Contains(m.Info(a.t.Context(), "persistence").Val(), "rdb_last_bgsave_status:"+status)
	})
}

// adviceScene is what is wrong, what status says of it, and who does what it says.
type adviceScene struct {
	name, standing, reason, cause string // of status --json; cause is that of master 2
	code                          int
	spoil                         func(a *advised)
	obey                          func(a *advised, s *statusJSON)
}

var adviceScenes = []adviceScene{
	{"never initialised", "needs init", "new masters", "no record", exitNeedsInit, func(a *advised) {
		for _, u := range a.urls {
			must(a.t, direct(a.t, u).FlushAll(a.t.Context()).Err())
		}
	}, func(a *advised, s *statusJSON) {
		for _, m := range s.Masters {
			if m.Remedy != "the list as a whole needs init" {
				a.t.Errorf("the list needs init, and of one master it says %s", m.Remedy)
			}
		}
		a.obey(s.Text, "init")
	}},
	{"quarantined", "recovering", "locks work", "no record", exitRecovers, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).FlushAll(a.t.Context()).Err())
	}, func(a *advised, s *statusJSON) { a.obey(s.Text, "status") }},
	{"down", "recovering", "locks work", "no server", exitRecovers, func(a *advised) {
		must(a.t, a.servers[2].Kill())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "start the master")
		must(a.t, a.servers[2].Restart(a.t.Context()))
		again := a.status()
		a.obey(again.Text, "status")
	}},
	{"two down", "no quorum", "no quorum", "no server", exitMasters, func(a *advised) {
		must(a.t, a.servers[1].Kill())
		must(a.t, a.servers[2].Kill())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, " is out of reach (connection refused): start the master, or correct its URL; 127.0.0.1:", ": the same", a.servers[1].Addr(), a.servers[2].Addr())
		must(a.t, a.servers[1].Restart(a.t.Context()))
		must(a.t, a.servers[2].Restart(a.t.Context()))
		again := a.status()
		a.obey(again.Text, "init")
	}},
	{"two wrong passwords", "no quorum", "no quorum", "password", exitMasters, func(a *advised) { // they answer
		for i := 1; i < 3; i++ {
			must(a.t, direct(a.t, a.urls[i]).ConfigSet(a.t.Context(), "requirepass", "right").Err())
			a.urls[i] = strings.Replace(a.urls[i], "redis://", "redis://:topsecret@", 1)
		}
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "too few masters can be used, so nothing can be locked")
		for i := 1; i < 3; i++ {
			a.urls[i] = strings.Replace(a.urls[i], "topsecret", "right", 1)
			a.t.Cleanup(func() { _ = direct(a.t, a.urls[i]).ConfigSet(context.Background(), "requirepass", "").Err() })
		}
	}},
	{"wrong password", "recovering", "locks work", "password", exitRecovers, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "requirepass", "right").Err())
		a.urls[2] = strings.Replace(a.urls[2], "redis://", "redis://:topsecret@", 1)
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "correct the user and the password in its URL")
		a.urls[2] = strings.Replace(a.urls[2], "topsecret", "right", 1)
		a.t.Cleanup(func() { _ = direct(a.t, a.urls[2]).ConfigSet(context.Background(), "requirepass", "").Err() })
	}},
	{"eviction policy", "recovering", "locks work", "eviction", exitRecovers, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "CONFIG SET maxmemory-policy noeviction")
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "maxmemory-policy", "noeviction").Err())
	}},
	{"memory full", "recovering", "locks work", "memory", exitRecovers, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "maxmemory", "1").Err())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "raise maxmemory")
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "maxmemory", "0").Err())
	}},
	{"right missing", "recovering", "locks work", "rights", exitRecovers, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).Do(a.t.Context(), "acl", "setuser", "default", "-zrank").Err())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Text+s.Masters[2].Remedy, "zrank", "grant it to the lock's user")
		must(a.t, direct(a.t, a.urls[2]).Do(a.t.Context(), "acl", "setuser", "default", "+zrank").Err())
	}},
	{"disk gone", "recovering", "locks work", "disk", exitRecovers, func(a *advised) {
		must(a.t, os.MkdirAll(filepath.Join(a.servers[2].Dir(), "dump.rdb", "in the way"), 0o755))
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "save", "3600 1").Err())
		a.saves("err")
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "make room on its disk")
		must(a.t, os.RemoveAll(filepath.Join(a.servers[2].Dir(), "dump.rdb")))
		a.saves("ok")
		must(a.t, direct(a.t, a.urls[2]).ConfigSet(a.t.Context(), "save", "").Err())
	}},
	{"replica", "recovering", "locks work", "replica", exitRecovers, func(a *advised) {
		host, port, _ := strings.Cut(a.servers[0].Addr(), ":")
		must(a.t, direct(a.t, a.urls[2]).Do(a.t.Context(), "replicaof", host, port).Err())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "REPLICAOF NO ONE")
		must(a.t, direct(a.t, a.urls[2]).Do(a.t.Context(), "replicaof", "no", "one").Err())
		again := a.status()
		if again.ExitCode != exitOK {
			a.obey(again.Text, "status")
		}
	}},
	{"TLS to a server without", "recovering", "locks work", "TLS", exitRecovers, func(a *advised) {
		a.urls[2] = strings.Replace(a.urls[2], "redis://", "rediss://", 1)
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Remedy, "write redis:// and not rediss:// in its URL")
		a.urls[2] = strings.Replace(a.urls[2], "rediss://", "redis://", 1)
	}},
	{"no more clients", "recovering", "locks work", "clients", exitRecovers, func(a *advised) {
		a.kept = direct(a.t, a.urls[2])
		must(a.t, a.kept.ConfigSet(a.t.Context(), "maxclients", "1").Err())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Masters[2].Text+s.Masters[2].Remedy, "max number of clients", "raise its maxclients")
		must(a.t, a.kept.ConfigSet(a.t.Context(), "maxclients", "1000").Err())
	}},
	{"too few vote", "too few vote", "locks wait", "waits", exitTooFewVote, func(a *advised) {
		c, err := redlock.Open(a.t.Context(), a.urls, redlock.WithMaxTTL(a.ttl), redlock.WithNodeTimeout(time.Second))
		must(a.t, err)
		defer c.Close()
		for _, u := range a.urls[1:] {
			must(a.t, direct(a.t, u).Del(a.t.Context(), protocol.RecordKey).Err())
		}
		eventually(a.t, "a program waits for them", func() bool {
			return !slices.ContainsFunc(records(a.t, a.urls[1:]), func(r map[string]string) bool { return r["since"] == "" })
		})
	}, func(a *advised, s *statusJSON) { a.obey(s.Text, "status") }},
	{"no writes", "too few vote", "no writes", "memory", exitTooFewVote, func(a *advised) {
		for _, u := range a.urls[1:] {
			must(a.t, direct(a.t, u).ConfigSet(a.t.Context(), "maxmemory", "1").Err())
		}
	}, func(a *advised, s *statusJSON) {
		for _, u := range a.urls[1:] {
			must(a.t, direct(a.t, u).ConfigSet(a.t.Context(), "maxmemory", "0").Err())
		}
	}},
	{"record of something else", "bad record", "bad record", "record", exitRefused, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).HSet(a.t.Context(), protocol.RecordKey, "state", "rubbish").Err())
	}, func(a *advised, s *statusJSON) {
		ours := fmt.Sprintf("3 masters %s, maximum TTL %v, drift 0.01 + 2ms;", joined(a.servers[:3]), a.ttl)
		wantSaid(a.t, s.Text, "rubbish", "it names your list, "+ours, "delete it: the master then recovers")
		must(a.t, direct(a.t, a.urls[2]).Del(a.t.Context(), protocol.RecordKey).Err())
		again := a.status()
		a.obey(again.Text, "status")
	}},
	{"one master twice", "one master twice", "one master twice", "same master", exitRefused, func(a *advised) {
		a.urls[2] = strings.Replace(a.urls[1], "127.0.0.1", "localhost", 1)
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "name it once")
		a.urls[2] = a.servers[2].URL()
	}},
	{"wrong list", "not this list", "other list", "", exitRefused, func(a *advised) {
		a.urls[2] = a.servers[3].URL()
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "you gave 3 masters", a.servers[2].Addr(), "use the list that it belongs to")
		a.urls[2] = a.servers[2].URL()
	}},
	{"other maximum TTL", "not this list", "other maximum TTL or drift", "other list", exitRefused, func(a *advised) { a.ttl = 7 * time.Second }, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "so give --max-ttl "+waitTTL.String()+";", ": redlock reconfigure --from URLS --max-ttl "+waitTTL.String()+" --to-max-ttl 7s")
		wantSaid(a.t, s.Masters[0].Remedy, "give --max-ttl "+waitTTL.String())
		a.obey(s.Text, "reconfigure")
	}},
	{"renamed", "not this list", "renamed master", "", exitRefused, func(a *advised) {
		a.urls[2] = strings.Replace(a.urls[2], "127.0.0.1", "localhost", 1)
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "names cannot change in place", "redis://NEW_ADDRESS?name="+a.servers[2].Addr())
		a.urls[2] += "?name=" + a.servers[2].Addr()
	}},
	{"init interrupted", "needs init", "init unfinished", "waits", exitNeedsInit, func(a *advised) {
		for _, u := range a.urls {
			must(a.t, direct(a.t, u).FlushAll(a.t.Context()).Err())
		}
		out := a.interrupt("left: masters recover", "init", "--max-ttl", a.ttl.String(), "--nodes", a.list())
		wantSaid(a.t, out, said.InitStopped.Text)
	}, func(a *advised, s *statusJSON) { a.obey(s.Text, "init") }},
	{"reconfigure interrupted", "changing", "locks stopped", "retired", exitChanging, func(a *advised) {
		out := a.interrupt("all locks are stopped", "reconfigure", "--max-ttl", a.ttl.String(), "--to-max-ttl", "4s", "--from", a.list())
		wantSaid(a.t, out, said.ChangeStopped.Text)
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "all locks are stopped")
		a.obey(s.Text, "reconfigure")
		a.ttl = 4 * time.Second
	}},
}

// What status says is true: the cause is the one that the scene has, and who does what it advises has locks that work, within the
// time that it names. This is the operator at night, who reads and does as told.
func TestAdvice_isTrue(t *testing.T) { play(t, 4, adviceScenes) }

// play runs scenes.
func play(t *testing.T, masters int, scenes []adviceScene) {
	t.Helper()
	t.Parallel()
	inHalves(t, masters, len(scenes), func(t *testing.T, servers []*localredis.Server, i int) {
		scene := scenes[i]
		t.Run(scene.name, func(t *testing.T) {
			stall.Try(t, time.Second, func(t testing.TB) {
				a := newAdvised(t, servers)
				scene.spoil(a)
				s := a.status()
				if s.Standing != scene.standing || s.Reason != scene.reason || s.ExitCode != scene.code {
					t.Errorf("%s (%s), %d: %s\nwant %s (%s), %d", s.Standing, s.Reason, s.ExitCode, s.Text, scene.standing, scene.reason, scene.code)
				}
				i := slices.IndexFunc(s.Masters, func(m masterJSON) bool { return m.Cause == scene.cause })
				if scene.cause != "" && i < 0 {
					t.Errorf("no master has the cause %q: %+v", scene.cause, s.Masters)
				}
				if i >= 0 {
					s.Masters[2], s.Masters[i] = s.Masters[i], s.Masters[2]
				}
				a.since = time.Now()
				scene.obey(a, &s)
				a.worksInTime()
			})
		})
	})
}

// inHalves runs n scenes in two rows side by side, each on masters of its own: they wait most of the time.
func inHalves(t *testing.T, masters, n int, scene func(t *testing.T, servers []*localredis.Server, i int)) {
	t.Helper()
	for half := range 2 {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			t.Parallel()
			servers := startMasters(t, masters)
			for i := half; i < n; i += 2 {
				scene(t, servers, i)
			}
		})
	}
}

// newAdvised begins the list of the first three masters.
func newAdvised(t testing.TB, servers []*localredis.Server) *advised {
	t.Helper()
	a := &advised{t: t, servers: servers, ttl: waitTTL}
	for _, s := range servers {
		if s.PID() == 0 { // the scene before this one left it so
			must(t, s.Restart(t.Context()))
		}
		must(t, direct(t, s.URL()).FlushAll(t.Context()).Err())
		a.urls = append(a.urls, s.URL())
	}
	a.urls = a.urls[:3:3]
	a.begin()
	return a
}

// begin lets the list of a vote.
func (a *advised) begin() {
	a.t.Helper()
	quorumtest.Begin(a.t, a.urls, redlock.WithMaxTTL(a.ttl), redlock.WithTTL(a.ttl))
}

// worksInTime checks that who did what was said has locks that work within the time that was named, and that nothing is left
// to do.
func (a *advised) worksInTime() {
	a.t.Helper()
	a.works(a.urls)
	if took := time.Since(a.since); took > a.named+adviceMargin {
		a.t.Errorf("it took %v, and the longest time that was named is %v:\n%s", took, a.named, strings.Join(a.said, "\n"))
	}
	if a.init != nil {
		a.init.wantCode(exitOK)
	}
	if s := a.status(); s.ExitCode != exitOK {
		a.t.Errorf("afterwards %d: %s", s.ExitCode, s.Text)
	}
}
