// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// withUser returns URLs of the masters for a user, who is made on each with the password.
func (ms *masters) withUser(user, password string) (urls []string) {
	ms.t.Helper()
	for i, s := range ms.servers {
		ms.acl(i, "setuser", user, "on", ">"+password, "~*", "&*", "+@all")
		urls = append(urls, "redis://"+user+":"+password+"@"+s.Addr())
	}
	return urls
}

func (ms *masters) acl(i int, words ...any) {
	ms.t.Helper()
	noErr(ms.t, ms.direct[i].Do(context.Background(), append([]any{"acl"}, words...)...).Err())
}

// killOthers ends all connections to master i but those of the test.
func (ms *masters) killOthers(i int) {
	ms.t.Helper()
	noErr(ms.t, ms.direct[i].Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	noErr(ms.t, ms.direct[i].Do(context.Background(), "client", "kill", "type", "pubsub", "skipme", "yes").Err())
}

// A client runs, and a master wants it no more: its password is another one, its user is gone, the master has a password now, or
// too many clients, or its user has lost rights, which ends no connection. The log and the state say what is so. When that is mended, the
// master votes.
func TestMaster_turnsAwayARunningClient_stateSaysWhy(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	initAt(t, ms.urls())
	m2 := ms.servers[2].Addr()
	named, byDefault := ms.withUser("locker", "first"), make([]string, 3)
	for i, s := range ms.servers {
		byDefault[i] = "redis://" + s.Addr()
	}
	for _, tc := range []struct {
		name        string
		urls        []string
		spoil, mend func()
		says        []string
		kills       bool // only a new connection shows it
	}{
		{"password", named, func() { ms.acl(2, "setuser", "locker", "resetpass", ">second") },
			func() { ms.acl(2, "setuser", "locker", ">first") }, []string{"WRONGPASS", "check user and password"}, true},
		{"user", named, func() { ms.acl(2, "deluser", "locker") },
			func() { ms.withUser("locker", "first") }, []string{"WRONGPASS", "check user and password"}, true},
		{"no password", byDefault, func() { ms.acl(2, "setuser", "default", "resetpass", ">secret") },
			func() { ms.acl(2, "setuser", "default", "nopass") }, []string{"NOAUTH", "check user and password"}, true},
		{"maxclients", named, func() { noErr(t, ms.direct[2].ConfigSet(t.Context(), "maxclients", "1").Err()) },
			func() { noErr(t, ms.direct[2].ConfigSet(t.Context(), "maxclients", "1000").Err()) },
			[]string{"max number of clients reached", "raise maxclients"}, true},
		{"rights", named, func() { ms.acl(2, "setuser", "locker", "resetkeys", "~x*") },
			func() { ms.acl(2, "setuser", "locker", "~*") }, []string{"NOPERM", "grant it"}, false},
	} {
		var log syncBuffer
		var states masterStates
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		c, err := redlock.Open(ctx, tc.urls, patient, redlock.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))), states.observer())
		cancel()
		noErr(t, err)
		soon(t, "m2 votes", func() bool { return states.now(m2).To == event.MasterVotes })
		tc.spoil()
		if tc.kills {
			ms.killOthers(2)
		}
		soon(t, tc.name+": the state is refuses", func() bool {
			noErr(t, locked(t, c.Mutex("x")).Unlock(t.Context())) // an idle client would notice later
			return states.now(m2).To == event.MasterRefuses
		})
		for _, says := range tc.says {
			if why := states.now(m2).Err; !strings.Contains(why.Error(), says) {
				t.Errorf("%s: %v, want %q", tc.name, why, says)
			}
		}
		if !wantLogged(t, log.String(), m2, append(tc.says, "will not vote until somebody acts")...) {
			t.Errorf("%s: the log says\n%s", tc.name, log.String())
		}
		tc.mend()
		soon(t, tc.name+": m2 votes again", func() bool { return states.now(m2).To == event.MasterVotes })
		noErr(t, c.Close())
	}
}

// The runbook "Change a password": programs hold locks while the user has two passwords, move to the new one a program at a
// time, and the old one goes. Nobody loses a lock or waits for a master.
func TestRotation_ofPasswords_noLockIsLost(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	initAt(t, ms.urls())
	old := ms.withUser("locker", "first")
	var refused atomic.Int32
	watch := redlock.WithObserver(&event.Observer{Master: func(e event.Master) {
		if e.To == event.MasterRefuses {
			refused.Add(1)
		}
	}})
	open := func(urls []string) *redlock.Client {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := redlock.Open(ctx, urls, watch, patient)
		noErr(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b := open(old), open(old)
	held, moves := locked(t, a.Mutex("a")), locked(t, b.Mutex("b"))

	both := ms.withUser("locker", "second") // ACL SETUSER locker >second
	ms.killOthers(0)                        // a network that breaks meanwhile asks for the password again
	noErr(t, moves.Unlock(t.Context()))
	noErr(t, b.Close())
	b = open(both)
	moves = locked(t, b.Mutex("b"))
	if _, err := b.Mutex("a").TryLock(t.Context()); err == nil {
		t.Error("two holders of a")
	}
	noErr(t, held.Extend(t.Context()))
	noErr(t, held.Unlock(t.Context()))
	noErr(t, a.Close())
	for i := range ms.servers {
		ms.acl(i, "setuser", "locker", "<first")
		ms.killOthers(i) // whoever still has the old password is seen now
	}
	soon(t, "b has all masters again", func() bool { return moves.Extend(t.Context()) == nil && b.Stats().Down == 0 })
	noErr(t, moves.Unlock(t.Context()))
	if n := refused.Load(); n > 0 {
		t.Errorf("masters refused a client %d times", n)
	}
	stale, err := redis.ParseURL(old[0])
	noErr(t, err)
	outsider := redis.NewClient(stale)
	defer outsider.Close()
	if err := outsider.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("the old password is answered with %v", err)
	}
}
