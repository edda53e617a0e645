// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/redlock/admin"
)

// reconfigure moves the locks to another list.
type reconfigure struct {
	from, to masters
	json     bool
	given    func(flag string) bool
}

const reconfigureHelp = `Moves the locks from one list of masters to another, or to another maximum TTL
or drift. Locks stop for the maximum TTL of the old list and twice its drift;
holders lose their leases, and no token is ever given twice.

A majority of the old masters must vote, and every new master must be reachable.
When it is killed, call it again with the same lists, on any host: it goes on
where it stopped. Afterwards start the clients with the new list.

exit code: 0 done, 1 the lists do not fit the masters, 2 usage, 3 too few
masters answer or vote, 4 another change is unfinished
`

func (c *reconfigure) define(fs *pflag.FlagSet) {
	c.from.define(fs, "from", "", "the masters that vote now")
	c.from.defineFile(fs)
	c.to.define(fs, "to", "to-", "those that shall vote (default --from)")
	c.to.defineFile(fs)
	fs.Lookup("to-nodes-file").Usage = "`FILE` that has their URLs, one a line"
	c.to.maxTTL = 0
	fs.Lookup("to-max-ttl").DefValue, fs.Lookup("to-max-ttl").Usage = "0s", "`TIME`, the new maximum TTL (default --max-ttl)"
	c.to.drift = drift{}
	fs.Lookup("to-drift").DefValue, fs.Lookup("to-drift").Usage = "", "`DRIFT`, the new one (default --drift)"
	defineJSON(fs, &c.json)
	c.given = fs.Changed
}

func (c *reconfigure) check() error {
	where, err := c.from.find()
	if err != nil {
		return err
	}
	whereNew, err := c.findNew()
	if err != nil {
		return err
	}
	if err := c.from.tls.check(slices.Concat(c.from.nodes, c.to.nodes)); err != nil { // one list may have TLS, and the other not
		return err
	}
	if err := c.from.verify(where); err != nil {
		return err
	}
	if len(c.to.nodes) == 0 {
		c.to.nodes = c.from.nodes
	}
	if !c.given("to-max-ttl") {
		c.to.maxTTL = c.from.maxTTL
	}
	if !c.given("to-drift") {
		c.to.drift = c.from.drift
	}
	if c.to.count == 0 && len(c.to.nodes) == len(c.from.nodes) {
		c.to.count = c.from.count
	}
	c.to.namespace = c.from.namespace
	return c.to.verify(whereNew)
}

// findNew fills in the new list, if it is in a file or a cluster: another one, or the same with another number of votes. where is as that of
// find.
func (c *reconfigure) findNew() (where func(i int) string, err error) {
	c.to.tls = c.from.tls
	var given []string
	for _, flag := range []string{"to-cluster", "to-nodes-file", "to"} {
		if c.given(flag) {
			given = append(given, "--"+flag)
		}
	}
	switch {
	case len(given) > 1:
		return nil, fmt.Errorf("%s and %s both name the new masters: give one of them", given[0], given[1])
	case c.given("to-nodes-file"):
		return c.to.read("--to-nodes-file", c.to.file)
	case c.to.cluster == "" && (len(c.to.nodes) > 0 || c.from.cluster == "" || c.to.count == 0):
		return at("--to"), nil
	case c.to.cluster == "":
		c.to.cluster = c.from.cluster
	}
	if err := c.to.expand("--to-cluster"); err != nil {
		return nil, err
	}
	from, name := clusterOf(c.from.cluster)
	to, newName := clusterOf(c.to.cluster)
	if from != "" && from != to && name == newName && len(c.from.nodes) == len(c.to.nodes) {
		return nil, errors.New("--to-cluster: the votes of all clusters have the same names, so this is the same list: " +
			"give the new cluster a name, ?name=NAME in its URL and in that of all programs; if it is the same cluster, give the same URL twice")
	}
	return at("--to-cluster"), nil
}

// clusterOf are the servers in the URL of a whole cluster, and the name that it gives to the votes.
func clusterOf(rawURL string) (servers, name string) {
	servers, params, _ := strings.Cut(rawURL, "?")
	query, _ := url.ParseQuery(params) // which was read before
	return strings.TrimSuffix(servers, "/"), query.Get("name")
}

func (c *reconfigure) run(ctx context.Context, o output) error {
	p := newProgress(o.err, c.fit)
	defer p.end()
	if err := admin.Reconfigure(ctx, c.from.list(), c.to.list(), p.tell); err != nil {
		p.end()
		if errors.Is(err, context.Canceled) {
			sayWhatStands(o.err, &c.from, said.ChangeStopped.Text)
		}
		err = c.from.errorCode(err)
		if e, ok := err.(*exitError); ok {
			e.text = c.to.fitNew(e.text)
		}
		return err
	}
	p.end()
	return showDone(ctx, o.out, &c.to, c.json, func(*admin.Status) (int, string) {
		gone := func(url string) bool { return !slices.Contains(c.to.nodes, url) }
		if !slices.ContainsFunc(c.from.nodes, gone) {
			return exitOK, said.NewTermsVote.Text
		}
		return exitOK, said.NewListVotes.Text
	})
}

// fit is that of both lists.
func (c *reconfigure) fit(text string) string { return c.to.fitNew(c.from.fit(text)) }

// cancel gives up a change.
type cancel struct {
	masters
	json bool
}

const cancelHelp = `Gives up a change of masters that was begun, if no majority of the old list has
stopped for it. Otherwise the change can only be finished, and then another one
leads back.

exit code: 0 the old list votes, 1 the list does not fit the masters, 2 usage,
3 too few masters answer, 4 it is too late
`

func (c *cancel) define(fs *pflag.FlagSet) {
	c.masters.define(fs, "nodes", "", "the old masters")
	c.defineFile(fs)
	defineJSON(fs, &c.json)
}

func (c *cancel) run(ctx context.Context, o output) error {
	before, err := admin.ReadStatus(ctx, c.list())
	if err != nil {
		return c.errorCode(err)
	}
	if err := admin.Cancel(ctx, c.list()); err != nil {
		return c.errorCode(err)
	}
	return showDone(ctx, o.out, &c.masters, c.json, func(*admin.Status) (int, string) {
		if before.Change == nil {
			return exitOK, said.NoChange.Text
		}
		return exitOK, said.GivenUp.Text
	})
}
