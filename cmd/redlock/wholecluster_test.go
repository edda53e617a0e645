// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// A whole Redis Cluster, as programs with OpenCluster have it: every command by flag, and by variable.
func TestWholeCluster_everyCommand(t *testing.T) {
	needs.Cluster(t)
	t.Parallel()
	cl := quorumtest.StartCluster(t, localredis.None, time.Minute)
	url := "redis-cluster://" + cl.Servers[1].Addr() + "," + cl.Servers[2].Addr()
	open := func(ctx context.Context, opts ...redlock.Option) (*redlock.Client, error) {
		return redlock.OpenCluster(ctx, url, opts...)
	}
	byFlag := asProgram(t, nil, "--max-ttl", tlsTTL, "--cluster", url)
	wantSaid(t, byFlag(exitNeedsInit, "status"), "redlock init --nothing-was-ever-locked --cluster URL --max-ttl "+tlsTTL)
	everyCommand(t, open, nil, byFlag)
	byVariable := asProgram(t, []string{"REDLOCK_CLUSTER=" + url}, "--max-ttl", tlsTTLAfter)
	byVariable(exitOK, "status")
	byVariable(exitOK, "doctor")
	byVariable(exitOK, "run", "nightly", "--ttl", tlsTTL, "--", "true")

	for _, tc := range []struct{ flags, says []string }{
		{[]string{"--cluster", "redis://a:1"}, []string{"--cluster: ", "want redis-cluster://host:port"}},
		{[]string{"--cluster", url + "/?tag=x"}, []string{"no parameters but those of TLS"}},
		{[]string{"--cluster", url, "--nodes", url}, []string{"--cluster and --nodes both name the masters"}},
		{[]string{"--cluster", url, "--tls-ca", "/x"}, []string{"--tls-ca is for masters with TLS"}},
		{[]string{"--cluster", url, "--node-count", "64"}, []string{"64 masters"}},
	} {
		said := asProgram(t, nil, tc.flags...)(exitUsage, "status")
		wantSaid(t, said, tc.says...)
	}
	said := asProgram(t, nil, "--cluster", url, "--to-cluster", url, "--to", url)(exitUsage, "reconfigure")
	wantSaid(t, said, "--to-cluster and --to both name the new masters")
}
