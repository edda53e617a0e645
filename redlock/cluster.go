// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/lock/cluster"
	"github.com/redlock-go/redlock/internal/masters"
)

// OpenCluster is [Open] for one whole Redis Cluster: url is
// redis-cluster://[user:password@]host:port,host:port, with several of its servers; rediss-cluster:// is with TLS, and takes the
// parameters of [node.Open] for that. The masters of the
// cluster are the quorum, with one vote each: three masters, or as many as [WithNodeCount] says.
//
// Each vote is a slot that never changes, in the middle of its share of the slots, so that a cluster
// that redis-cli --cluster create made has one vote on each master. The names of locks need no tag: on
// each master a lock has that master's tag before its name. Two votes on one master are refused:
// OpenCluster returns [ErrConfig], and if a slot moves later, its vote is missing until it has a master of
// its own again. No redirection is followed within a round.
//
// The votes of all clusters have the same names, by which a change of masters tells lists apart. A cluster to which the locks may
// move has a name in its URL, ?name=NAME, in all programs.
//
// A cluster is one failure domain: see docs/choose-your-redis.md for what is promised and what it takes.
//
// An operator calls admin.Init and the other operations with the URLs of [ClusterURLs]. A client of
// OpenCluster and a client of the same masters by Open do not exclude each other.
func OpenCluster(ctx context.Context, url string, opts ...Option) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	s, err := apply(opts)
	if err != nil {
		return nil, err
	}
	urls, err := s.clusterURLs(url)
	if err != nil {
		return nil, err
	}
	nodes, err := s.openNodes(urls)
	if err != nil {
		return nil, err
	}
	s.cluster = true
	for i, n := range nodes {
		nodes[i] = cluster.Vote(n, s.namespace)
	}
	c, err := newClient(ctx, nodes, s)
	if err != nil {
		masters.CloseAll(nodes)
		return nil, err
	}
	return c, nil
}

// ClusterURLs returns the URLs of the votes of a cluster, for a List of admin.Init and the other
// operations. url and opts are those of [OpenCluster].
func ClusterURLs(url string, opts ...Option) ([]string, error) {
	s, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return s.clusterURLs(url)
}

func (s *settings) clusterURLs(rawURL string) ([]string, error) {
	u, err := cluster.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	n := s.nodeCount
	if n == 0 {
		n = 3
	}
	if err := s.checkCount(n); err != nil {
		return nil, err
	}
	return u.Votes(n), nil
}
