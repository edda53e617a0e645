// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// Issue 25, 2: all masters are flushed while a lock is held, a program that runs begins their quarantine, and an operator says
// that nothing was ever locked. The quarantine proves otherwise: Init waits, and there are never two holders.
func TestInit_neverLockedAfterAClientClaims_waits(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	const ttl = 3 * time.Second // Init is to look before the quarantine is over
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl)}
	a := ms.begin(opts...)
	held := locked(t, a.Mutex("x", redlock.WithoutRenewal()))
	settled(t, held, 5)
	ms.each(ms.all(), flush)
	soon(t, "the client claims a master", func() bool {
		_, _ = a.Mutex("other").TryLock(t.Context())
		return ms.phase(0) == membership.Quarantined || ms.phase(1) == membership.Quarantined
	})
	said := ""
	noErr(t, admin.Init(t.Context(), list(ms.urls(), opts...), func(what string, _ time.Duration) { said += what }, admin.NothingWasEverLocked))
	if err := held.Err(); err == nil {
		t.Errorf("Init let masters vote while a lease was valid for %v", time.Until(held.ValidUntil()))
	}
	wantText(t, errorText(said), "contradict that nothing was ever locked")
}

type errorText string

func (e errorText) Error() string { return string(e) }

// Issue 25, 2: another database of the same servers looks like new masters, and each would grant every lock once.
func TestInit_otherDatabase_refused(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	initAt(t, ms.urls(), quick...) // no client is open: it would claim the masters that are flushed below, and a change tells only masters that vote
	other := ms.urls()
	for i := range other {
		other[i] += "/1"
	}
	refused := func(urls []string, opts ...redlock.Option) {
		t.Helper()
		err := admin.Init(t.Context(), list(urls, opts...), nil, admin.NothingWasEverLocked)
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, "database 0 of that server has a record of this list", "name database 0 in all URLs", "namespace")
	}
	refused(other, quick...)
	refused(other) // another maximum TTL makes it no other list
	for i := range ms.servers {
		if n := ms.inDatabase(i, 1).Exists(t.Context(), protocol.RecordKey).Val(); n != 0 {
			t.Errorf("master %d has a record in database 1", i)
		}
	}

	// It is the other way round with a list that begins in database 1. One name for each server does not hide it.
	ms.each(ms.all(), flush)
	named := ms.urls()
	for i := range named {
		named[i] += "/1?name=m" + string('a'+rune(i))
	}
	noErr(t, admin.Init(t.Context(), list(named, quick...), nil, admin.NothingWasEverLocked))
	for i := range named {
		named[i] = ms.urls()[i] + "/0?name=m" + string('a'+rune(i))
	}
	err := admin.Init(t.Context(), list(named, quick...), nil, admin.NothingWasEverLocked)
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, "database 1 of that server has a record of this list")

	// A namespace is a set of locks of its own. A list that moved to another database is left, and no obstacle.
	noErr(t, admin.Init(t.Context(), list(ms.urls(), redlock.WithNamespace("b")), nil, admin.NothingWasEverLocked))
	ms.each(ms.all(), flush)
	initAt(t, ms.urls(), quick...)
	var before []string
	for _, d := range ms.direct {
		before = append(before, d.Dump(t.Context(), protocol.RecordKey).Val())
	}
	stood := func(i int) { // a master that did not hear that the list was left
		noErr(t, ms.direct[i].RestoreReplace(t.Context(), protocol.RecordKey, 0, before[i]).Err())
	}
	reconfigure(t, list(ms.urls(), quick...), list(other, quick...))
	for i := range ms.servers {
		noErr(t, ms.inDatabase(i, 1).FlushDB(t.Context()).Err())
	}
	stood(2)
	noErr(t, admin.Init(t.Context(), list(other, quick...), nil))
	for i := range ms.servers {
		noErr(t, ms.inDatabase(i, 1).FlushDB(t.Context()).Err())
	}
	stood(1)
	refused(other, quick...) // the list of database 0 has a quorum
}

// inDatabase is a connection to another database of master i.
func (ms *masters) inDatabase(i, db int) *redis.Client {
	opts := *ms.direct[i].Options()
	opts.DB = db
	c := redis.NewClient(&opts)
	ms.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Where the user may not SELECT, Init cannot look into other databases, and goes on.
func TestInit_otherDatabases_notAllowed_passedOver(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	urls := limited(ms, "-select")
	noErr(t, ms.inDatabase(0, 1).HSet(context.Background(), protocol.RecordKey, "state", "x").Err())
	noErr(t, admin.Init(t.Context(), list(urls), nil, admin.NothingWasEverLocked))
}

// Issue 25, 11: one server under two names would vote twice, so no program can open such a list. Nobody lets it begin, nobody
// moves to it, and status says so.
func TestOperate_masterTwice_refusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	urls := ms.urls()
	twice := []string{urls[0], urls[1], urls[0] + "?name=other"}
	wantTwice := func(err error) {
		t.Helper()
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, ms.servers[0].Addr(), "other", "are the same master")
	}
	wantTwice(admin.Init(t.Context(), list(twice), nil, admin.NothingWasEverLocked))
	s, err := admin.ReadStatus(t.Context(), list(twice))
	noErr(t, err)
	if s.Standing != admin.OneMasterTwice {
		t.Errorf("%v: %s", s.Standing, s.Text)
	}
	wantText(t, errorText(s.Text), "are the same master")
	_, err = admin.AwaitVotes(t.Context(), list(twice), nil)
	wantTwice(err)
	ms.wantNoKeys("*")

	initAt(t, urls)
	before := ms.recordState(0)
	wantTwice(admin.Reconfigure(t.Context(), list(urls), list(twice), nil))
	// In both lists a master has one name: its record is one.
	wantTwice(admin.Reconfigure(t.Context(), list(urls), list([]string{urls[1], urls[2], urls[0] + "?name=other"}), nil))
	if after := ms.recordState(0); after != before {
		t.Errorf("the record was %s, is now %s", before, after)
	}
}

// Issue 25, 12: the power failed, two of five masters are gone for good, and no program is left that saw the list vote. Starting
// masters does not help, and the list cannot be changed. status, the error of a program and the error of reconfigure say what
// does: empty servers under the old names, and init.
func TestStatus_majorityForgotAndMastersGone_saysTheCure(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	noErr(t, ms.begin(quick...).Close())
	urls := ms.urls()
	for i := range ms.servers {
		noErr(t, ms.servers[i].Kill())
		if i < 3 {
			noErr(t, ms.servers[i].Restart(t.Context()))
		}
	}
	cure := []string{"3 of 5 masters", ms.servers[3].Addr(), ms.servers[4].Addr(), " is out of reach (connection refused): start the master", ": the same; mend these", "start an empty server under its old name", "redlock init --nodes URLS"}
	s, err := admin.ReadStatus(t.Context(), list(urls, quick...))
	noErr(t, err)
	if s.Standing != admin.NeedsMasters {
		t.Errorf("%v", s.Standing)
	}
	wantText(t, errorText(s.Text), cure...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if s, err = admin.AwaitVotes(ctx, list(urls, quick...), nil); err != nil || s.Standing != admin.NeedsMasters {
		t.Errorf("%+v, %v", s, err)
	}
	wantNotOpened(t, urls, redlock.ErrNeedsInit, cure, quick...)
	err = admin.Reconfigure(t.Context(), list(urls, quick...), list(urls[:3], quick...), nil)
	wantIs(t, err, redlock.ErrUnreachable)
	wantText(t, err, "redlock status --wait", "hear what to do if they cannot recover")
	wantText(t, admin.Init(t.Context(), list(urls, quick...), nil), "if one is gone for good, start an empty server under its old name")

	others := startMasters(t, 2, localredis.Config{})
	for i := range others.servers {
		urls[3+i] = others.servers[i].URL() + "?name=" + ms.servers[3+i].Addr()
	}
	start := time.Now()
	noErr(t, admin.Init(t.Context(), list(urls, quick...), nil))
	t.Logf("init took %v", time.Since(start))
	noErr(t, locked(t, openAt(t, urls, quick...).Mutex("x")).Unlock(t.Context()))
}
