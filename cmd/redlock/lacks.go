// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/internal/protocol"
)

// lacks are the rights without which a master votes, and some locks do not work, or are slow.
type lacks struct {
	readers   []string // commands that only read locks need
	subscribe error    // what the master says to SUBSCRIBE, if it refuses that
}

// hears tries SUBSCRIBE on a connection of its own. What breaks that connection says nothing of rights.
func hears(ctx context.Context, c *redis.Client, ns protocol.Namespace) error {
	messages := c.Subscribe(ctx, ns.Wake("check"))
	defer messages.Close()
	_, err := messages.ReceiveTimeout(ctx, masterurl.Patience)
	var reply redis.Error
	if errors.As(err, &reply) {
		return err
	}
	return nil
}

// lacking returns what doctor says of rights that some locks need.
func lacking(patients []patient) (found []complaint) {
	for i := range patients {
		p := &patients[i]
		say := func(what string, err any) {
			found = append(found, p.complaint("lacks", fmt.Errorf("%w: %v: %s", protocol.ErrDenied, err, what)))
		}
		if p.err != nil { // that comes first
			continue
		}
		if len(p.lacks.readers) > 0 {
			say("only read locks need that; where it is missing they are refused, or their release may wake nobody",
				"this user may not run, or this master lacks, "+strings.Join(p.lacks.readers, ", "))
		}
		if p.lacks.subscribe != nil {
			say("a waiter does not hear from this master that a lock is free, and has it up to some seconds late if a quorum is so", p.lacks.subscribe)
		}
	}
	return found
}
