// SPDX-License-Identifier: Apache-2.0

package simtest

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

const (
	patience = 5 * time.Second  // for a master that does not answer
	limit    = 30 * time.Second // for its connection
)

// Patient is [Masters] whose clients wait long for an answer.
type Patient struct{ masters Masters }

// Patient is the masters for a program in real time, such as an example, which cannot be run again: a machine that is held up
// for longer than the default node timeout is no outage.
func (ms Masters) Patient() Patient { return Patient{ms} }

func (p Patient) config() node.Config {
	return node.Config{DialTimeout: limit, IOTimeout: limit, StallAfter: patience}
}

// Init is [Masters.Init].
func (p Patient) Init(ctx context.Context, opts ...redlock.Option) error {
	return p.masters.init(ctx, p.config(), patiently(opts))
}

// Open is [Masters.Open].
func (p Patient) Open(ctx context.Context, prepare func(c *Client), opts ...redlock.Option) (*Client, error) {
	return p.masters.open(ctx, p.config(), prepare, patiently(opts))
}

func patiently(opts []redlock.Option) []redlock.Option {
	return append([]redlock.Option{redlock.WithNodeTimeout(patience)}, opts...)
}
