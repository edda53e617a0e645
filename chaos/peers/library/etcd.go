// SPDX-License-Identifier: Apache-2.0

package library

import (
	"context"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/peers/etcd"
)

// etcdLocks are etcd's mutexes as a library.
type etcdLocks struct{ *etcd.Locks }

// OpenEtcd opens etcd's own servers, which are the nodes of the task.
func OpenEtcd(t client.Task) (Locker, error) {
	k, err := etcd.Open(t.Nodes, t.TTL)
	return etcdLocks{k}, err
}

func (k etcdLocks) Take(ctx context.Context, name string) (Lease, error) {
	key, revision, release, err := k.Locks.Take(ctx, name)
	return Lease{Grant: client.Grant{Holder: key, Token: revision}, Release: release}, err
}
