// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/localredis"
	"github.com/redlock-go/redlock/redlock"
)

const doctorHelp = `Connects to your masters, says what they are, and tries them as the lock would
when a program starts. It only reads: no key is written, nothing begins.

  server    redis or valkey, and its version
  state     what the master's record lets it do:
            new             never used, or flushed: votes after "redlock-bench
                            init", or after the wait of a restart
            votes           votes
            restarted       votes again after a wait, or at once when aof is
                            always; the next client to come sees to it
            recovering n/8  n steps of its wait are done
            retired         has left its epoch, for another list of masters
            replica         no master, never votes
  eviction  maxmemory-policy; anything but noeviction may throw locks away
  aof       off, or how often the append-only file is synced; "unknown" when
            CONFIG GET is not allowed
  clock     the master's TIME against this host's, with half the round trip as
            its error. Locks need clocks that run alike, not that show the same.

exit code: 0 all would be taken in, 1 something would be refused, 3 fewer
masters than a quorum answer
`

// errRefused: the lock would not work with these masters. It counts as a violation, for the exit code.
var errRefused = fmt.Errorf("%w: refused", errViolation)

// doctor says what masters are and what the lock would refuse.
type doctor struct{ nodes urls }

func (d *doctor) define(fs *flag.FlagSet) {
	fs.Var(&d.nodes, "nodes", "`URL,URL,...` of the masters")
}

func (d *doctor) check() error {
	if len(d.nodes) == 0 {
		return errors.New("--nodes is needed: the masters to look at")
	}
	return d.nodes.check()
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
	return d.verdict(o.out, patients)
}

// verdict prints what was found, and what the library makes of it.
func (d *doctor) verdict(w io.Writer, patients []patient) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "master\tserver\tstate\teviction\taof\tclock")
	answered := 0
	for _, p := range patients {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", p.name, p.version, p.state, p.eviction, p.aof, p.clock)
		if p.reached {
			answered++
		}
	}
	_ = tab.Flush()
	fmt.Fprintln(w)
	refused := complain(w, patients)
	refused = complainOfEpochs(w, patients) || refused
	quorum := len(patients)/2 + 1
	switch {
	case answered < quorum:
		return fmt.Errorf("%d of %s answered, quorum is %d", answered, plural(len(patients), "master"), quorum)
	case refused:
		return errRefused
	}
	return d.verdictOnSet(w, patients, answered)
}

// complain prints what is wrong with single masters, and reports whether one would be refused. One that is named twice would have two
// votes.
func complain(w io.Writer, patients []patient) (refused bool) {
	names := make(map[string]string)
	for _, p := range patients {
		switch first, ok := names[p.runID]; {
		case p.err != nil && !p.reached:
			paragraph(w, "silent", oneLine(p.err))
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

// complainOfEpochs prints which masters were set up to vote with others than these, or under different maximum TTLs, and reports whether
// there is one: no client can have them all.
func complainOfEpochs(w io.Writer, patients []patient) (refused bool) {
	named := make([]string, len(patients))
	for i, p := range patients {
		named[i] = p.name
	}
	slices.Sort(named)
	list := fmt.Sprintf("%d masters %s, ", len(named), strings.Join(named, " ")) // as the record has it
	var first *patient
	for i, p := range patients {
		switch {
		case p.epoch == "":
			continue
		case !strings.HasPrefix(p.epoch, list):
			paragraph(w, "refused", fmt.Sprintf("%s votes with %s: name these, or change them with redlock.Reconfigure", p.name, p.epoch))
			refused = true
		case first == nil:
			first = &patients[i]
		case p.epoch != first.epoch:
			paragraph(w, "refused", fmt.Sprintf("%s votes with %s, but %s with %s: finish the change with redlock.Reconfigure",
				first.name, first.epoch, p.name, p.epoch))
			refused = true
		}
	}
	return refused
}

// verdictOnSet asks for what is wrong with no master alone: that they are an even number, or too few. Without recovery the client that asks
// leaves the records alone.
func (d *doctor) verdictOnSet(w io.Writer, patients []patient, answered int) error {
	client, err := redlock.Open(d.nodes, redlock.WithUnsafeRecoveryOff())
	if errors.Is(err, redlock.ErrConfig) {
		paragraph(w, "refused", oneLine(err))
		return errRefused
	}
	if err != nil {
		return err
	}
	_ = client.Close()
	voting, fresh := 0, 0
	for _, p := range patients {
		switch p.state {
		case stateVotes:
			voting++
		case stateNew:
			fresh++
		}
	}
	of := plural(len(patients), "master")
	switch {
	case fresh == len(patients):
		paragraph(w, "fine", fmt.Sprintf("%s would be taken in; they are new: begin with redlock-bench init", of))
	case voting <= len(patients)/2:
		paragraph(w, "fine", fmt.Sprintf("%d of %s would be taken in, but only %d may vote yet: locks wait until a quorum does", answered, of, voting))
	default:
		paragraph(w, "fine", fmt.Sprintf("a lock would be taken on %d of %s", voting, of))
	}
	return nil
}

const (
	silent  = "-"       // stands where a master did not answer at all
	unknown = "unknown" // stands where it would not tell

	stateNew   = "new"
	stateVotes = "votes"
)

// patient is what one master says of itself, as the table shows it, and what the library says of it.
type patient struct {
	name, version, state, eviction, aof, clock string

	record  string // its key
	runID   string
	epoch   string // whom it votes with, in the words of its record; empty when it has none
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
	p.name, p.record = n.Name(), node.RecordKey
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
		p.runID = infoField(info, "run_id")
		p.version, p.eviction = localredis.VersionIn(info), infoField(info, "maxmemory_policy")
		p.aof = aof(ctx, c, info)
		p.clock = clockOffset(ctx, c)
		id := node.Identity{RunID: p.runID, ReplID: infoField(info, "master_replid"), Role: infoField(info, "role"), Eviction: p.eviction}
		if p.err = id.Check(); p.err == nil {
			p.err = p.readRecord(ctx, c, id)
		} else if id.Role != "master" {
			p.state = "replica"
		}
		if p.err != nil {
			p.err = &node.Error{Node: p.name, Err: p.err}
		}
	}
	if p.err == nil {
		p.err = n.Ready() // what the library itself says, so that we never say anything else
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

// readRecord says what the master's record lets it do.
func (p *patient) readRecord(ctx context.Context, c *redis.Client, id node.Identity) error {
	fields, err := c.HMGet(ctx, p.record, "gate", "epoch").Result()
	if err != nil {
		p.state = unknown
		return err
	}
	text, _ := fields[0].(string)
	gate, err := node.ParseGate(text)
	if err != nil {
		p.state = unknown
		return err
	}
	p.epoch, _ = fields[1].(string)
	p.state = stateOf(gate, id.Incarnation())
	if gate.State == node.Retired {
		return fmt.Errorf("it has left its epoch, %s, and the change is not finished: call redlock.Reconfigure again", p.epoch)
	}
	return nil
}

// stateOf puts a gate in a word or two.
func stateOf(g node.Gate, incarnation string) string {
	switch {
	case g == node.Gate{}:
		return stateNew
	case g.State == node.Retired:
		return "retired"
	case g.Incarnation != incarnation:
		return "restarted"
	case g.State == node.Recovering:
		return fmt.Sprintf("recovering %d/%d", g.Step, node.RecoverySteps)
	}
	return stateVotes
}

// aof is how often the append-only file is synced.
func aof(ctx context.Context, c *redis.Client, info string) string {
	if infoField(info, "aof_enabled") != "1" {
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
