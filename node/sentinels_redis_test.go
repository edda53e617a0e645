// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
)

// No sentinel names the master: the error is about the sentinels. Nobody is told to start the master.
func TestSentinels_noneNamesTheMaster_causeIsTold(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	master, err := localredis.Start(t.Context(), localredis.Config{})
	quorumtest.NoErr(t, err)
	t.Cleanup(func() { _ = master.Close() })
	sentinel := quorumtest.StartSentinel(t, master.Addr())
	c := redis.NewClient(&redis.Options{Addr: sentinel})
	defer c.Close()
	quorumtest.NoErr(t, c.Do(t.Context(), "acl", "setuser", "mute", "on", ">pw", "-@all").Err())
	quorumtest.NoErr(t, c.Do(t.Context(), "acl", "setuser", "asks", "on", ">pw", "-@all", "+sentinel|get-master-addr-by-name").Err())
	if err := ready(t, "redis-sentinel://"+sentinel+"/mine?sentinel_username=asks&sentinel_password=pw", patient); err != nil {
		t.Errorf("a user with the one right: %v", err)
	}
	if err := ready(t, "redis://"+sentinel, patient); cause.Of(err).Word != "hidden" {
		t.Errorf("a sentinel that is named as a master: %v: %+v", err, cause.Of(err))
	}
	const down, secret = "127.0.0.1:1", "topsecret"
	for _, tc := range []struct {
		name, url, cause string
		says             []string
	}{
		{"no such master", "redis-sentinel://" + down + "," + sentinel + "/other", "sentinels", []string{`knows no master "other"`}},
		{"wrong password", "redis-sentinel://" + down + "," + sentinel + "/mine?sentinel_username=mute&sentinel_password=" + secret, "sentinel password",
			[]string{"WRONGPASS", "sentinel_username", "sentinel_password"}},
		{"no right", "redis-sentinel://" + sentinel + "/mine?sentinel_username=mute&sentinel_password=pw", "sentinel password", []string{"NOPERM"}},
		{"no sentinel runs", "redis-sentinel://" + down + "/mine", "sentinels", []string{down + ": dial"}},
	} {
		err := ready(t, tc.url, patient)
		if got := cause.Of(err); got.Word != tc.cause || !errors.Is(err, node.ErrDown) || errors.Is(err, node.ErrDenied) != (tc.cause == "sentinel password") ||
			!strings.Contains(got.Text+got.Remedy, "sentinel") {
			t.Errorf("%s: %v: %+v, want cause %q", tc.name, err, got, tc.cause)
			continue
		}
		for _, says := range tc.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; want it to say %q", tc.name, err, says)
			}
		}
		if strings.Contains(err.Error(), down) && tc.name != "no sentinel runs" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v: tells of a sentinel that is down, or the password", tc.name, err)
		}
	}
}

// way is an address at which who runs at target is found while up, and answers while answers.
func way(t *testing.T, target string, up, answers func() bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	quorumtest.NoErr(t, err)
	t.Cleanup(func() { _ = l.Close() })
	forward := func(to io.WriteCloser, from io.ReadCloser, lets func() bool) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 4096)
		for n, err := from.Read(b); err == nil; n, err = from.Read(b) {
			if lets() {
				_, _ = to.Write(b[:n])
			}
		}
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			to, err := net.Dial("tcp", target)
			if err != nil || !up() {
				_ = c.Close()
				continue
			}
			go forward(to, c, up)
			go forward(c, to, answers)
		}
	}()
	return l.Addr().String()
}

// The sentinel that go-redis asks hangs. Another one is asked when go-redis has given up the first, which takes longer than the lane waits.
func TestNew_failoverClient_chosenSentinelHangs_masterIsFoundAgain(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	s, err := localredis.Start(t.Context(), localredis.Config{})
	quorumtest.NoErr(t, err)
	t.Cleanup(func() { _ = s.Close() })
	sentinel := quorumtest.StartSentinel(t, s.Addr())
	var hangs, second atomic.Bool
	first := way(t, sentinel, func() bool { return true }, func() bool { return !hangs.Load() })
	other := way(t, sentinel, second.Load, second.Load)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mine", ReadTimeout: 150 * time.Millisecond, MaxRetries: 1,
		SentinelAddrs: []string{first, other}})
	defer client.Close()
	n, err := node.New(client, node.Config{DialTimeout: 50 * time.Millisecond})
	quorumtest.NoErr(t, err)
	defer n.Close()
	n.Bind(protocol.Binding{Admit: func(protocol.Identity) error { return nil }})
	soon := func(what string, answers bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); (asked(n) == nil) != answers; time.Sleep(2 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within 10s: %s: %v", what, asked(n))
			}
		}
	}
	soon("the first sentinel names the master", true)
	second.Store(true)
	hangs.Store(true)
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	quorumtest.NoErr(t, d.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	soon("the lane finds its connection broken", false)
	soon("the second sentinel names the master", true)
}
