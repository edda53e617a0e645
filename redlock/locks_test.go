// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// listed is the names of the locks that begin with prefix, sorted, and the error at the end.
func listed(t *testing.T, ctx context.Context, c *redlock.Client, prefix string) (names []string, err error) {
	t.Helper()
	for in, e := range c.Locks(ctx, prefix) {
		if err != nil {
			t.Errorf("something follows the error: %v, %v", in, e)
		}
		if err = e; err != nil {
			if in != nil {
				t.Errorf("%v with an error", in)
			}
			continue
		}
		names = append(names, in.Name)
	}
	slices.Sort(names)
	return names, err
}

func TestLocks_manyKeys_heldOnesEachOnce(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		var want []string
		for i := range 40 {
			m := a.Mutex(fmt.Sprintf("orders/%03d", i))
			mustLock(t, m)
			want = append(want, m.Name())
		}
		wantErr(t, mustLock(t, a.Mutex("orders/given-back")).Unlock(t.Context()), nil)
		want = append(want, "orders/stays")
		mustLock(t, a.RWMutex("rw").RLocker())
		mustLock(t, a.RWMutex("rw").RLocker())
		for i, m := range c.masters {
			wantErr(t, m.Do(func(db *nodetest.DB) {
				for i := range 600 { // so that a master needs several steps
					db.Set(fmt.Sprintf("orders/other/%d", i), "1")
				}
				db.HSet("orders/hash", "field", "1")
				db.HSet("orders/stays", "00000000-0000-8000-8000-000000000000:1", "1") // no TTL: an operator must see it
				db.HSet("orders/session", "user", "1")
				db.PExpire("orders/session", 60_000)
				db.Set("orders/text", "1")
				db.HSet("redlock:foreign", "00000000-0000-8000-8000-000000000000:1", "1")
				db.PExpire("redlock:foreign", 60_000)
				if i < 2 { // a minority
					db.HSet("orders/few", "00000000-0000-8000-8000-000000000000:1", "1")
					db.PExpire("orders/few", 60_000)
				}
			}), nil)
		}
		got, err := listed(t, t.Context(), b.Client.Client, "orders/")
		wantErr(t, err, nil)
		if !slices.Equal(got, want) {
			t.Errorf("%d locks, want %d", len(got), len(want))
		}
		if got, err := listed(t, t.Context(), b.Client.Client, ""); err != nil || len(got) != 42 || got[41] != "rw" {
			t.Errorf("%d locks, %v", len(got), err)
		}
		n := 0
		for in, err := range b.Locks(t.Context(), "") {
			if n++; err != nil || len(in.Holders) == 0 || len(in.Masters) != 5 {
				t.Errorf("%+v, %v", in, err)
			}
			if n == 3 {
				break
			}
		}
	})
}

// manyReaders are what a master has of a lock that a thousand readers have: the fields of its hash, and their timeout keys.
func manyReaders(name string) (fields, keys []string) {
	for i := range 1000 {
		reader := fmt.Sprintf("00000000-0000-8000-8000-000000000000:%d", i)
		fields, keys = append(fields, reader), append(keys, "{"+name+"}:"+reader+":rwlock_timeout:1")
	}
	return fields, keys
}

// The hash of a lock with many readers is not looked at as a whole, and is known. Others of its size are no locks.
func TestLocks_aThousandReaders_listedAndOtherLargeHashesAreNot(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		b := c.client()
		readers, keys := manyReaders("read")
		for _, m := range c.masters {
			wantErr(t, m.Do(func(db *nodetest.DB) {
				db.HSet("read", "mode", "read")
				db.HSet("words", "mode", "read")
				for i, reader := range readers {
					db.HSet("read", reader, "1")
					db.SetPX(keys[i], "1", 60_000)
					db.HSet("sessions", reader, "1")
					db.HSet("sessions", fmt.Sprint("user", i), "1")
					db.HSet("words", fmt.Sprint("word", i), "1")
				}
				for _, key := range []string{"read", "sessions", "words"} {
					db.PExpire(key, 60_000)
				}
			}), nil)
		}
		got, err := listed(t, t.Context(), b.Client.Client, "")
		wantErr(t, err, nil)
		if !slices.Equal(got, []string{"read"}) {
			t.Errorf("%q, want the lock that is read", got)
		}
	})
}

// A lock whose votes are on the masters that answer is found. Only where a quorum of masters is silent may one be missed, and
// that is said.
func TestLocks_mastersSilent_saysWhenOneMayBeMissed(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		mustLock(t, a.Mutex("x"))
		for i, want := range []error{nil, nil, redlock.ErrUnreachable} {
			c.masters[i].Pause()
			got, err := listed(t, t.Context(), b.Client.Client, "")
			wantErr(t, err, want)
			if want == nil && !slices.Equal(got, []string{"x"}) {
				t.Errorf("%d silent: %v", i+1, got)
			}
			if want != nil {
				wantText(t, err, `inspecting "x"`, "2 of 5", "m0")
			}
		}
		got, err := listed(t, t.Context(), b.Client.Client, "y") // none that is known
		wantErr(t, err, redlock.ErrUnreachable)
		wantText(t, err, "3 of 5", "m0")
		if len(got) > 0 {
			t.Error(got)
		}
		for _, m := range c.masters[:3] {
			m.Resume()
		}
		for _, way := range b.Ways {
			way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if cmd.Name == "locks" {
					return nodetest.Fault{Refuse: fmt.Errorf("NOPERM this user has no permissions to run the 'scan' command")}
				}
				return nodetest.Fault{}
			})
		}
		time.Sleep(time.Minute)
		_, err = listed(t, t.Context(), b.Client.Client, "")
		wantErr(t, err, redlock.ErrRefused)
		wantText(t, err, "scan")
	})
}

// A master that was emptied answers, and no longer knows of a lock. So it tells as little as one that is silent.
func TestLocks_mastersForgot_saysThatOneMayBeMissed(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		mustLock(t, a.Mutex("x"))
		for i, want := range []error{nil, nil, redlock.ErrRecovering, redlock.ErrRecovering, redlock.ErrRecovering} {
			c.masters[i].Flush()
			time.Sleep(3 * time.Second / 2) // the clients look at it
			got, err := listed(t, t.Context(), b.Client.Client, "")
			wantErr(t, err, want)
			if i < 4 && !slices.Equal(got, []string{"x"}) {
				t.Errorf("%d forgot it: %v", i+1, got)
			}
			if want != nil {
				wantText(t, err, fmt.Sprintf("%d of 5 masters did not tell", i+1), "m0")
			}
		}
		time.Sleep(2 * time.Minute)
		got, err := listed(t, t.Context(), b.Client.Client, "")
		if wantErr(t, err, nil); len(got) > 0 {
			t.Errorf("%v, after the masters vote", got)
		}
	})
}

func TestLocks_badInput_errors(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		b := c.client()
		var none *redlock.Client
		for _, tc := range []struct {
			c    *redlock.Client
			ctx  context.Context
			want error
		}{{b.Client.Client, nil, redlock.ErrConfig}, {none, t.Context(), redlock.ErrConfig}, {b.Client.Client, ended(t), context.Canceled}} {
			_, err := listed(t, tc.ctx, tc.c, "")
			wantErr(t, err, tc.want)
		}
		wantErr(t, b.Close(), nil)
		_, err := listed(t, t.Context(), b.Client.Client, "")
		wantErr(t, err, redlock.ErrClosed)
	})
}

// On real servers: SCAN goes on over many keys, which come and go, and Redisson's layout is known.
func TestLocks_realMasters_amongOtherKeys(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	ctx := t.Context()
	var want []string
	for i := range 20 {
		l := locked(t, c.Mutex(fmt.Sprintf("orders/%02d", i)))
		settled(t, l, 3)
		want = append(want, fmt.Sprintf("orders/%02d", i))
	}
	readers, keys := manyReaders("orders/read")
	want = append(want, "orders/read")
	ms.each(ms.all(), func(d *redis.Client) error {
		pipe := d.Pipeline()
		for i := range 2000 {
			pipe.Set(ctx, fmt.Sprintf("orders/other/%d", i), 1, time.Minute)
		}
		pipe.HSet(ctx, "orders/read", "mode", "read")
		for i, reader := range readers {
			pipe.HSet(ctx, "orders/read", reader, 1)
			pipe.Set(ctx, keys[i], 1, time.Minute)
		}
		pipe.PExpire(ctx, "orders/read", time.Minute)
		_, err := pipe.Exec(ctx)
		return err
	})
	got, err := listed(t, ctx, c, "orders/")
	noErr(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	few := slices.DeleteFunc(rightsOf(""), func(r any) bool { return r == "+scan" })
	other, err := redlock.Open(ctx, limited(ms, few...), patient)
	noErr(t, err)
	defer other.Close()
	_, err = listed(t, ctx, other, "")
	wantIs(t, err, redlock.ErrRefused)
	wantText(t, err, "scan", ms.servers[0].Addr())
}
