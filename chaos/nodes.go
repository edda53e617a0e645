// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// With Config.Nodes a run uses masters of somebody else's. It injects faults between its clients and the masters, and nowhere else. It makes
// keys whose names have the prefix of the run, and two kinds that cannot have it: the node record of the library (RecordKey) and its clients'
// signs of life. It refuses a master that has a node record, because that belongs to locks in use, and removes all that it made.

// NodesPrefix returns the prefix of the names of all locks of a run with Config.Nodes.
func NodesPrefix(seed uint64) string { return fmt.Sprintf("redlock-chaos-%d:", seed) }

// The keys without the prefix. Clients of this library make signs of life only where there is a node record. So if a master had no record
// before the run, all of them are the run's.
const (
	RecordKey  = protocol.RecordKey
	SignOfLife = "redlock:alive:" // and the id of a client
)

// ErrNode means that a run cannot use a master of Config.Nodes. The error says why.
var ErrNode = errors.New("chaos: cannot use the masters")

// NodeInfo is a master of Config.Nodes.
type NodeInfo struct {
	Addr    string
	Version string // such as "redis 7.0.15"
	Keys    int64  // in its database
}

// inspectTime bounds the look at a master.
const inspectTime = 5 * time.Second

// Inspect looks at masters, writes nothing, and returns ErrNode if a run cannot use one of them.
func Inspect(ctx context.Context, urls []string) ([]NodeInfo, error) {
	if len(urls) < 3 || len(urls)%2 == 0 {
		return nil, fmt.Errorf("%w: %d masters: want an odd number from 3 to 15", ErrNode, len(urls))
	}
	var nodes []NodeInfo
	var errs []error
	ids := map[string]string{} // run id -> address
	for _, u := range urls {
		o, err := cluster.ParseNode(u)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		info, id, err := inspect(ctx, o)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", o.Addr, err))
		case ids[id] != "":
			errs = append(errs, fmt.Errorf("%s and %s are one server", ids[id], o.Addr))
		}
		ids[id] = o.Addr
		nodes = append(nodes, info)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNode, err)
	}
	return nodes, nil
}

// inspect looks at one master. id is the server's own.
func inspect(ctx context.Context, o *redis.Options) (n NodeInfo, id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	o.MaxRetries, o.DialerRetries, o.DisableIdentity, o.ContextTimeoutEnabled = -1, 1, true, true
	c := redis.NewClient(o)
	defer c.Close()
	text, err := c.Info(ctx).Result()
	if err != nil {
		return n, "", err
	}
	n = NodeInfo{Addr: o.Addr, Version: localredis.VersionIn(text)}
	switch {
	case protocol.InfoField(text, "role") != "master":
		return n, "", errors.New("it is a replica: name its master")
	case protocol.InfoField(text, "cluster_enabled") == "1":
		return n, "", errors.New("it is a part of a Redis Cluster: name independent masters")
	}
	if n.Keys, err = c.DBSize(ctx).Result(); err != nil {
		return n, "", err
	}
	return n, protocol.InfoField(text, "run_id"), unused(ctx, c)
}

// unused returns an error if locks are in use on the master.
func unused(ctx context.Context, c *redis.Client) error {
	switch there, err := c.Exists(ctx, RecordKey).Result(); {
	case err != nil:
		return err
	case there > 0:
		return fmt.Errorf("it has the key %s: locks of this library are in use there, or a chaos run was killed. Run redlock status to see; "+
			"if no lock is in use, delete the key, on each of the masters", RecordKey)
	}
	return nil
}

// registerDriver returns the driver of the server for the registers, which is never one of the user's.
func registerDriver(masters cluster.Driver) cluster.Driver {
	if masters == cluster.Nodes {
		return cluster.Process
	}
	return masters
}

// keyPattern matches the keys that a run may have made.
func (r *run) keyPattern() string {
	if len(r.cfg.Nodes) == 0 {
		return "*"
	}
	return "*" + r.cfg.Prefix + "*"
}

// claimNodes looks at the masters of Config.Nodes once more, right before the run writes to them. From then on leaveNodes removes what it made.
func (r *run) claimNodes(ctx context.Context) error {
	if len(r.cfg.Nodes) == 0 {
		return nil
	}
	if _, err := Inspect(ctx, r.cfg.Nodes); err != nil {
		return err
	}
	r.claimed = true
	return nil
}

// leaveNodes removes what the run made on the masters of Config.Nodes. They have no faults any more: those are on the links. It tries once,
// because somebody may wait for it.
func (r *run) leaveNodes() error {
	if !r.claimed {
		return nil
	}
	r.claimed = false
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	var all sync.WaitGroup // at once: one that hangs leaves the others their time
	errs := make([]error, len(r.target.Nodes))
	for i, n := range r.target.Nodes {
		all.Go(func() {
			if err := r.admin(ctx, n, r.leave); err != nil {
				errs[i] = fmt.Errorf("chaos: delete %s and the keys %s on %s: %w", RecordKey, r.keyPattern(), n.Master().Addr(), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

const leaveTime = time.Minute

// leave removes what the run made on one master.
func (r *run) leave(ctx context.Context, c *redis.Client, _ int) error {
	for _, pattern := range []string{r.keyPattern(), SignOfLife + "*"} {
		keys, err := keysOf(ctx, c, pattern)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := c.Del(ctx, key).Err(); err != nil {
				return err
			}
		}
	}
	return c.Del(ctx, RecordKey).Err()
}

// Allowable returns the nemeses that an operator may allow on Config.Nodes.
func Allowable() []string { return nemesis.OnRequest() }
