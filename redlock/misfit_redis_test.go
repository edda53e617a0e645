// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// One master of three is wrong. A program that starts costs that no more than one master that is down: it
// opens, it locks, and its log has an error that names the master and says what to do.
func TestOpen_misconfiguredMinority_opensAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, ms *masters, urls []string) // the last master
		says  []string
		text  string // of status
	}{
		"policy": {func(t *testing.T, ms *masters, _ []string) {
			noErr(t, ms.direct[2].ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		}, []string{"allkeys-lru", "set maxmemory-policy noeviction"}, "may evict locks: run CONFIG SET maxmemory-policy noeviction"},
		"replica": {func(t *testing.T, ms *masters, _ []string) {
			host, port, _ := strings.Cut(ms.servers[0].Addr(), ":")
			noErr(t, ms.direct[2].Do(t.Context(), "replicaof", host, port).Err())
		}, []string{"not a master", "name its master instead"}, "is a replica: name its master instead"},
		"run_id hidden": {func(t *testing.T, ms *masters, urls []string) {
			urls[2] = "redis://" + quorumtest.Hiding(t, ms.servers[2].Addr(), "run_id") + "?name=" + ms.servers[2].Addr()
		}, []string{"run_id", "not a proxy"}, "does not tell what the lock must know"},
		"another list": {func(t *testing.T, ms *masters, _ []string) {
			others := startMasters(t, 2, localredis.Config{})
			noErr(t, ms.direct[2].FlushAll(t.Context()).Err())
			initAt(t, append(others.urls(), ms.urls()[2]))
		}, []string{"belongs to another epoch"}, "belongs to another epoch"},
		"record": {func(t *testing.T, ms *masters, _ []string) {
			noErr(t, ms.direct[2].HSet(t.Context(), protocol.RecordKey, "state", "of something else").Err())
		}, []string{"the node record cannot be read"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 3, localredis.Config{})
			noErr(t, ms.begin().Close())
			urls := ms.urls()
			tc.spoil(t, ms, urls)
			var log syncBuffer
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c, err := redlock.Open(ctx, urls, patient, redlock.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
			noErr(t, err)
			defer c.Close()
			noErr(t, locked(t, c.Mutex("x")).Unlock(t.Context()))
			soon(t, "the error is in the log", func() bool {
				return wantLogged(t, log.String(), ms.servers[2].Addr(), append(tc.says, "will not vote until somebody acts")...)
			})
			status, err := admin.ReadStatus(t.Context(), list(urls))
			noErr(t, err)
			for _, m := range status.Masters {
				if m.Votes == (m.Name == ms.servers[2].Addr()) {
					t.Errorf("status says %+v", m)
				}
			}
			if !strings.Contains(status.Text, tc.text) {
				t.Errorf("status says %s", status.Text)
			}
		})
	}
}

// wantLogged says whether log has a line of level error about the master with all of says in it.
func wantLogged(t *testing.T, log, master string, says ...string) bool {
	t.Helper()
next:
	for line := range strings.Lines(log) {
		var fields struct{ Level, Msg, Master, Why string }
		noErr(t, json.NewDecoder(bytes.NewBufferString(line)).Decode(&fields))
		if fields.Level != "ERROR" || fields.Master != master {
			continue
		}
		for _, s := range says {
			if !strings.Contains(fields.Msg+fields.Why, s) {
				continue next
			}
		}
		return true
	}
	return false
}

// A master that is wrong is no hindrance to the change that takes it away.
func TestReconfigure_awayFromAMisconfiguredMaster(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 4, localredis.Config{})
	opts := []redlock.Option{redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second)}
	initAt(t, ms.urls()[:3], opts...)
	noErr(t, ms.direct[2].ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	from, to := ms.urls()[:3], []string{ms.urls()[0], ms.urls()[1], ms.urls()[3]}
	noErr(t, admin.Reconfigure(t.Context(), list(from, opts...), list(to, opts...), nil))
	// A master that is to vote from now on must be fit for it.
	err := admin.Reconfigure(t.Context(), list(to, opts...), list(from, opts...), nil)
	wantIs(t, err, redlock.ErrConfig, node.ErrEviction)
}

// A master whose memory or disk is full answers, and takes no step of a change. It costs what a master that is down costs: the change that takes
// it away does not need it, and the change that brings it does not begin.
func TestReconfigure_aMasterRefusesWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		to          []int
		full, later int // the master that is full before the change, and the one that is full when all locks are stopped; -1 for none
		want        error
		says        []string
	}{
		"it leaves":        {[]int{0, 1, 3}, 2, -1, nil, nil},
		"it comes":         {[]int{0, 1, 3}, 3, -1, redlock.ErrUnreachable, []string{"memory is full (OOM)", "nothing has stopped", "raise maxmemory"}},
		"it stays":         {[]int{1, 2, 3}, 2, -1, redlock.ErrUnreachable, []string{"memory is full (OOM)", "nothing has stopped"}},
		"it is full later": {[]int{3, 4, 5}, -1, 5, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stall.Try(t, time.Second, func(t testing.TB) {
				ms := startMasters(t, 6, localredis.Config{})
				initAt(t, ms.pick(0, 1, 2), quick...)
				fill := func(i int) {
					if i >= 0 {
						noErr(t, ms.direct[i].ConfigSet(t.Context(), "maxmemory", "1").Err())
					}
				}
				fill(tc.full)
				later := sync.OnceFunc(func() { fill(tc.later) })
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := admin.Reconfigure(ctx, list(ms.pick(0, 1, 2), quick...), list(ms.pick(tc.to...), quick...), func(string, time.Duration) { later() })
				if tc.want != nil {
					wantIs(t, err, tc.want)
					wantText(t, err, append(tc.says, ms.servers[tc.full].Addr())...)
					noErr(t, locked(t, openAt(t, ms.pick(0, 1, 2), quick...).Mutex("x")).Unlock(t.Context()))
					return
				}
				noErr(t, err)
				noErr(t, locked(t, openAt(t, ms.pick(tc.to...), quick...).Mutex("x")).Unlock(t.Context()))
			})
		})
	}
}

// A change is given up by a quorum that votes. The master that refuses writes is not needed.
func TestCancel_aMasterRefusesWrites(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	initAt(t, ms.urls(), quick...)
	noErr(t, ms.direct[2].ConfigSet(t.Context(), "maxmemory", "1").Err())
	var before []membership.Record
	for _, d := range ms.direct[:2] { // the change died after two of its promises
		fields := d.HGetAll(t.Context(), protocol.RecordKey).Val()
		r, err := membership.ParseRecord(fields)
		noErr(t, err)
		e := r.State.Epoch
		promised := membership.Intent{Plan: membership.Plan{Ballot: membership.Ballot{Round: 1, Nonce: 7}, From: e, Target: membership.Epoch{Number: e.Number + 1, ID: 7}}, Who: "a change that died"}
		noErr(t, d.HSet(t.Context(), protocol.RecordKey, membership.FieldIntent, promised.String()).Err())
		before = append(before, r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	noErr(t, admin.Cancel(ctx, list(ms.urls(), quick...)))
	for i, d := range ms.direct[:2] {
		r, err := membership.ParseRecord(d.HGetAll(t.Context(), protocol.RecordKey).Val())
		noErr(t, err)
		if r.State != before[i].State || r.Intent.Ballot.Round < 2 || r.Intent.Target != (membership.Epoch{}) {
			t.Errorf("master %d: %v, promised %v", i, r.State, r.Intent)
		}
	}
}

// Where a majority refuses writes, cancel says that, and not that it is too late: with room they would give the change up.
func TestCancel_aMajorityRefusesWrites_saysSo(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	initAt(t, ms.urls(), quick...)
	r, err := membership.ParseRecord(ms.direct[0].HGetAll(t.Context(), protocol.RecordKey).Val())
	noErr(t, err)
	promised := membership.Intent{Plan: membership.Plan{Ballot: membership.Ballot{Round: 1, Nonce: 7}, From: r.State.Epoch,
		Target: membership.Epoch{Number: r.State.Epoch.Number + 1, ID: 7}}, Who: "a change that died"}
	noErr(t, ms.direct[0].HSet(t.Context(), protocol.RecordKey, membership.FieldIntent, promised.String()).Err())
	full := func(limit string) {
		for _, d := range ms.direct[1:] {
			noErr(t, d.ConfigSet(t.Context(), "maxmemory", limit).Err())
		}
	}
	full("1")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = admin.Cancel(ctx, list(ms.urls(), quick...))
	wantIs(t, err, redlock.ErrRefused)
	wantText(t, err, "OOM")
	full("0")
	noErr(t, admin.Cancel(ctx, list(ms.urls(), quick...)))
}
