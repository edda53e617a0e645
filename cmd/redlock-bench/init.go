// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

const initHelp = `Lets masters vote that have never voted, in the epoch of this list and
this maximum TTL: what every program must then be given too. A cluster begins
with it, once. Masters that vote already are left as they are, and so are those
of which some do: they recover by themselves.

It claims that no lock granted by these masters can still be held. Where that
may be false, after a restart of all masters at once for one, do not call it:
the masters vote by themselves when the longest lock is over.

exit code: 0 all vote, 3 some are not available or wait by themselves
`

// initial is what operators do once.
type initial struct {
	nodes  urls
	maxTTL time.Duration
}

func (c *initial) define(fs *flag.FlagSet) {
	fs.Var(&c.nodes, "nodes", "`URL,URL,...` of all the masters")
	fs.DurationVar(&c.maxTTL, "max-ttl", redlock.DefaultMaxTTL, "`TIME` that no lock is taken for longer than")
}

func (c *initial) check() error {
	switch {
	case len(c.nodes) == 0:
		return errors.New("--nodes is needed: all the masters, as every program names them")
	case c.maxTTL < minTime:
		return fmt.Errorf("--max-ttl %v: want %v or more", c.maxTTL, minTime)
	}
	return c.nodes.check()
}

func (c *initial) run(ctx context.Context, o output) error {
	// The default TTL must fit below a smaller maximum; none is taken.
	client, err := redlock.Open(c.nodes, redlock.WithNodeCount(len(c.nodes)),
		redlock.WithMaxTTL(c.maxTTL), redlock.WithTTL(min(c.maxTTL, redlock.DefaultTTL)))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Init(ctx); err != nil {
		return err
	}
	voting := 0
	for _, url := range c.nodes {
		p := examine(ctx, url)
		fmt.Fprintf(o.out, "%s  %s\n", p.name, p.state)
		if p.state == stateVotes {
			voting++
		}
	}
	if voting < len(c.nodes) {
		return fmt.Errorf("only %d of %s vote: some voted before, so the others recover by themselves", voting, plural(len(c.nodes), "master"))
	}
	paragraph(o.out, "", fmt.Sprintf("%s vote, with a maximum TTL of %v. Give every program the same list and the same maximum TTL.",
		plural(voting, "master"), c.maxTTL))
	return nil
}
