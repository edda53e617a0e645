// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// A whole Redis Cluster, as programs with OpenCluster have it: every command by flag, and by variable.
func TestWholeCluster_everyCommand(t *testing.T) {
	needs.Cluster(t)
	needs.NoRace(t, aProgramEach)
	needs.Test(t)
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
		{[]string{"--cluster", url + "/?tag=x"}, []string{`parameter "tag" in the URL`}},
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

// A whole cluster whose servers speak TLS with their clients and among each other, and want a certificate: every command.
func TestWholeCluster_overTLS_everyCommand(t *testing.T) {
	needs.Cluster(t)
	needs.NoRace(t, aProgramEach)
	needs.Test(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 3, localredis.Config{Cluster: true, Args: []string{"--tls-cluster", "yes", "--tls-replication", "yes", "--cluster-node-timeout", "60000"}})
	const slots = 16384
	for i, server := range s.Servers {
		c := direct(t, server.URL())
		must(t, c.Do(t.Context(), "cluster", "addslotsrange", i*slots/3, (i+1)*slots/3-1).Err())
		must(t, c.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err())
	}
	first := direct(t, s.Servers[0].URL())
	for i := 1; i < 3; i++ {
		bus, err := direct(t, s.Servers[i].URL()).ConfigGet(t.Context(), "cluster-port").Result()
		must(t, err)
		host, port, err := net.SplitHostPort(s.Addrs[i])
		must(t, err)
		must(t, first.Do(t.Context(), "cluster", "meet", host, port, bus["cluster-port"]).Err())
	}
	for _, server := range s.Servers {
		eventually(t, "the cluster is whole", func() bool {
			info, err := direct(t, server.URL()).ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	url := "rediss-cluster://" + s.Addrs[1] + "," + s.Addrs[2]
	open := func(ctx context.Context, opts ...redlock.Option) (*redlock.Client, error) {
		return redlock.OpenCluster(ctx, url+"/?"+quorumtest.Params(s.Cert, s.Key, s.CA), opts...)
	}
	everyCommand(t, open, nil, asProgram(t, nil, "--max-ttl", tlsTTL, "--cluster", url, "--tls-cert", s.Cert, "--tls-key", s.Key, "--tls-ca", s.CA))
	byVariable := asProgram(t, []string{"REDLOCK_CLUSTER=" + url, "REDLOCK_TLS_CERT=" + s.Cert, "REDLOCK_TLS_KEY=" + s.Key, "REDLOCK_TLS_CA=" + s.CA}, "--max-ttl", tlsTTLAfter)
	byVariable(exitOK, "doctor")
	byVariable(exitOK, "run", "nightly", "--ttl", tlsTTL, "--", "true")
	stall.Try(t, handshake, func(t testing.TB) {
		said := asProgram(t, nil, "--max-ttl", tlsTTLAfter, "--cluster", url, "--tls-ca", s.CA)(exitMasters, "status")
		wantSaid(t, said, "client certificate", "--tls-cert and --tls-key")
	})
}

// All locks move from one whole cluster to another one.
func TestWholeCluster_toAnother(t *testing.T) {
	needs.Cluster(t)
	needs.NoRace(t, aProgramEach)
	needs.Test(t)
	t.Parallel()
	var urls [2]string
	for i := range urls {
		cl := quorumtest.StartCluster(t, localredis.None, time.Minute)
		urls[i] = "redis-cluster://" + cl.Servers[0].Addr() + "," + cl.Servers[1].Addr()
	}
	old, next := asProgram(t, nil, "--max-ttl", tlsTTL, "--cluster", urls[0]), asProgram(t, nil, "--max-ttl", tlsTTL, "--cluster", urls[1])
	old(exitOK, "init", never)
	wantSaid(t, next(exitNeedsInit, "status"), "are new or were emptied")
	// Votes of two clusters have the same names, if nobody gives them others: that would be one list, and nothing would move.
	wantSaid(t, old(exitUsage, "reconfigure", "--to-cluster", urls[1]), "give the new cluster a name")
	next = asProgram(t, nil, "--max-ttl", tlsTTL, "--cluster", urls[1]+"/?name=new")
	wantSaid(t, old(exitOK, "reconfigure", "--to-cluster", urls[1]+"/?name=new"), said.NewListVotes.Text)
	next(exitOK, "status")
	next(exitOK, "run", "nightly", "--ttl", tlsTTL, "--", "true")
	wantSaid(t, old(exitRefused, "status"), "left for another list")
	wantSaid(t, old(exitUsage, "run", "nightly", "--ttl", tlsTTL, "--", "true"), "left for another list")
}
