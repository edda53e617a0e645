// SPDX-License-Identifier: Apache-2.0

package library

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/client"
)

// setNX is what people write by hand, and what the page of SET has: SET with NX and PX on one master, and a script that deletes the
// key if its value is still the caller's. It is tried as often as the other libraries that do not wait.
type setNX struct {
	conns
	ttl time.Duration
}

var deleteOwn = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)

func openSetNX(_ context.Context, t client.Task) (Locker, error) {
	all, err := connect(t)
	return &setNX{all, t.TTL}, err
}

func (k *setNX) Take(ctx context.Context, name string) (Lease, error) {
	c, value := k.conns[of(name, len(k.conns))], holder()
	return retry(ctx, func() (Lease, error) {
		end := time.Now().Add(k.ttl)
		if err := c.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", TTL: k.ttl}).Err(); err != nil {
			return Lease{}, err // redis.Nil where another has it
		}
		release := func(ctx context.Context) error {
			if n, err := deleteOwn.Run(ctx, c, []string{name}, value).Int(); err != nil {
				return err
			} else if n == 0 {
				return errors.New("the key is another's, or gone")
			}
			return nil
		}
		return Lease{Grant: client.Grant{Holder: value, ValidUntil: end}, Release: release}, nil
	})
}
