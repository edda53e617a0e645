// SPDX-License-Identifier: Apache-2.0

package fenceredis_test

import (
	"context"
	"errors"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fenceredis"
	"github.com/redlock-go/redlock/redlock"
)

// The token is shown before the first read, and again with each write. The key need not be on a master of the lock.
func Example() {
	store := redis.NewClient(&redis.Options{Addr: "10.0.0.7:6379", MaxRetries: -1})
	defer store.Close()
	withdraw := func(ctx context.Context, lease *redlock.Lease, amount int) error {
		const key = "account/17"
		if err := fenceredis.Present(ctx, store, key, lease.Token()); err != nil {
			return err
		}
		balance, err := store.Get(ctx, key).Int()
		if err != nil {
			return err
		}
		return fenceredis.Set(ctx, store, key, lease.Token(), balance-amount)
	}

	var client *redlock.Client // from redlock.Open
	err := client.Mutex("account/17").Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
		return withdraw(ctx, lease, 30)
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("another holder was here after us, and nothing was written: begin again")
	}
}
