// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/needs"
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
