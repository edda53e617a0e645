// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/localredis"
	"github.com/redlock-go/redlock/redlock"
)

const doctorHelp = `Connects to your masters, says what they are, and tries them as the lock would
when a program starts. It only reads: no key is written, nothing begins.

  server    redis or valkey, and its version
  eviction  maxmemory-policy; anything but noeviction may throw locks away
  aof       off, or how often the append-only file is synced; "unknown" when
            CONFIG GET is not allowed
  clock     the master's TIME against this host's, with half the round trip as
            its error. Locks need clocks that run alike, not that show the same.
  state     what the master's record lets it do:
            votes       votes
            waits       lost its record, and votes when its wait is over
            restarted   may have forgotten votes; a client lets it wait
            no record   it is new, or was flushed: the two look alike
            retired     its list is being left for another one
            other list  votes or waits with another list, maximum TTL or drift

A rollout may go on when the exit code is 0: every master votes, with this list.

` + exitCodesOfMasters

// errRefused: the lock would not work with these masters. It counts as a violation, for the exit code.
var errRefused = fmt.Errorf("%w: refused", errViolation)

// doctor says what masters are and what the lock would refuse.
type doctor struct{ masters }

func (d *doctor) define(fs *flag.FlagSet) {
	d.masters.define(fs, "nodes", "", "the masters")
	fs.BoolVar(&d.fixed, "fixed", false, "the clients of this list have WithFixedMasters")
}

func (d *doctor) run(ctx context.Context, o output) error {
	patients := make([]patient, len(d.nodes))
	var g errgroup.Group
	for i, url := range d.nodes {
		g.Go(func() error {
			patients[i] = examine(ctx, url)
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	list := d.list()
	list.Options = append(list.Options, redlock.WithNodeCount(0)) // how many there are is judged too
	status, err := redlock.ReadStatus(ctx, list)
	return verdict(o.out, patients, status, err)
}

// verdict prints what was found, and what the library makes of it.
func verdict(w io.Writer, patients []patient, status *redlock.Status, err error) error {
	for i := range patients {
		patients[i].state = stateOf(status, patients[i].name)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "master\tserver\teviction\taof\tclock\tstate")
	for _, p := range patients {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", p.name, p.version, p.eviction, p.aof, p.clock, p.state)
	}
	_ = tab.Flush()
	fmt.Fprintln(w)
	refused := complain(w, patients)
	switch {
	case err != nil:
		paragraph(w, "refused", oneLine(err))
		return errRefused
	case refused && status.Standing != redlock.NoQuorum:
		return errRefused
	case status.Standing == redlock.NotThisList:
		paragraph(w, "refused", status.Text)
		return errRefused
	}
	say(w, status.Standing.String()+": "+status.Text)
	if code := exitOf(status.Standing); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// stateOf is what the library says of a master.
func stateOf(s *redlock.Status, name string) string {
	if s != nil {
		for _, m := range s.Masters {
			if m.Name == name {
				return m.State
			}
		}
	}
	return silent
}

// complain prints what is wrong with single masters, and reports whether one would be refused. One that is named twice would have two
// votes.
func complain(w io.Writer, patients []patient) (refused bool) {
	names := make(map[string]string)
	for _, p := range patients {
		switch first, ok := names[p.runID]; {
		case p.err != nil && !p.reached:
			paragraph(w, "silent", oneLine(p.err))
			continue
		case p.err != nil:
			paragraph(w, "refused", oneLine(p.err))
			refused = true
		case ok:
			paragraph(w, "refused", fmt.Sprintf("%s and %s are the same master: name it once", first, p.name))
			refused = true
		}
		names[p.runID] = p.name
	}
	return refused
}

const (
	silent  = "-"       // stands where a master did not answer at all
	unknown = "unknown" // stands where it would not tell
)

// patient is what one master says of itself, as the table shows it, and what the library says of it.
type patient struct {
	name, version, state, eviction, aof, clock string

	record  string // its key
	runID   string
	reached bool
	err     error // why it would not be let in
}

// examine asks one master.
func examine(ctx context.Context, url string) patient {
	p := patient{name: silent, version: silent, state: silent, eviction: silent, aof: silent, clock: silent}
	n, err := node.Open(url, node.Config{})
	if err != nil {
		p.err = err
		return p
	}
	defer n.Close()
	p.name, p.record = n.Name(), protocol.RecordKey
	if n.Tag() != "" {
		p.record += ":{" + n.Tag() + "}"
	}
	c, err := p.connect(ctx, url)
	var reply redis.Error
	if err != nil {
		p.reached, p.err = errors.As(err, &reply), &node.Error{Node: p.name, Err: err}
		return p
	}
	defer c.Close()
	info, err := c.Info(ctx).Result()
	p.reached = err == nil || errors.As(err, &reply)
	if err == nil {
		p.runID = protocol.InfoField(info, "run_id")
		p.version, p.eviction = localredis.VersionIn(info), protocol.InfoField(info, "maxmemory_policy")
		p.aof = aof(ctx, c, info)
		p.clock = clockOffset(ctx, c)
		if err := protocol.ReadIdentity(info, "").Check(); err != nil {
			p.err = &node.Error{Node: p.name, Err: err}
		}
	}
	if p.err == nil {
		p.err = n.Ready(ctx) // what the library itself says, so that we never say anything else
	}
	return p
}

// connect returns a client of the master: of a slot of a cluster, whomever a server of it names.
func (p *patient) connect(ctx context.Context, url string) (*redis.Client, error) {
	if !isCluster(url) {
		o, err := connection(url)
		if err != nil {
			return nil, err
		}
		return redis.NewClient(o), nil
	}
	var last error
	for _, server := range servers(url) {
		o, err := connection(server)
		if err != nil {
			return nil, err
		}
		for range 5 {
			c := redis.NewClient(o)
			last = c.Exists(ctx, p.record).Err()
			moved, ok := redis.IsMovedError(last)
			if last == nil {
				return c, nil
			}
			_ = c.Close()
			if !ok {
				break
			}
			o.Addr = moved
		}
	}
	return nil, last
}

// servers are a cluster's, as if each were a master.
func servers(url string) (urls []string) {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "/")
	user, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, hosts = rest[:at+1], rest[at+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		urls = append(urls, strings.TrimSuffix(scheme, "-cluster")+"://"+user+host)
	}
	return urls
}

// aof is how often the append-only file is synced.
func aof(ctx context.Context, c *redis.Client, info string) string {
	if protocol.InfoField(info, "aof_enabled") != "1" {
		return "off"
	}
	conf, err := c.ConfigGet(ctx, "appendfsync").Result()
	if err != nil || conf["appendfsync"] == "" {
		return unknown
	}
	return conf["appendfsync"]
}

// clockOffset is how far the master's clock is ahead of ours, by the fastest of a few round trips: the faster, the surer.
func clockOffset(ctx context.Context, c *redis.Client) string {
	best, offset := time.Duration(-1), time.Duration(0)
	for range 5 {
		sent := time.Now()
		theirs, err := c.Time(ctx).Result()
		trip := time.Since(sent)
		if err != nil {
			return unknown
		}
		if best < 0 || trip < best {
			best, offset = trip, theirs.Sub(sent.Add(trip/2))
		}
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%+.2f ±%.2f ms", ms(offset), ms(best/2))
}
