// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/redlock/event"
)

const doctorHelp = `Connects to your masters, says what they are, and tries them as the lock would
when a program starts. It changes no record and no lock, and nothing begins. As
every client does, it tries the user's rights on keys that are only for that,
such as redlock:check, and are gone when that script ends: so it needs the
rights of the user that locks.

  server    redis or valkey, and its version
  eviction  maxmemory-policy; anything but noeviction may throw locks away
  aof       off without an append-only file, else how often it is synced;
            "unknown" when CONFIG GET is not allowed
  clock     the master's TIME against this host's, with half the round trip as
            its error. Locks need clocks that run alike, not that show the same.
  state     what the master does, in the words of metrics and events:
            votes       all is well
            recovers    does not vote yet: it waits (lost its record, and votes
                        when its wait is over), restarted (may have forgotten
                        votes; a client lets it wait), has no record (is new, or
                        was flushed: the two look alike) or is retired (its list
                        is being left for another one)
            refuses     votes when somebody has acted: it is of an other list,
                        maximum TTL or drift; its rights or its role are wrong;
                        it refuses to write, because memory or disk is full; or
                        so many have no record, or restarted, that the list as a
                        whole needs init
            down        does not answer

It says "lacks" of a right that some locks need only: to read locks, or to hear
at once that a lock is free.

Behind failover it also reads the settings that make an old master stop, where
CONFIG GET and SENTINEL MASTER are allowed, and says "failover" for one that
lets two servers vote.

With --namespace it also prints the command that makes a Redis user which can
touch the keys and channels of that namespace, and nothing else.

A rollout may go on when the exit code is 0: every master votes, with this list.

` + exitCodesOfMasters

// doctor says what masters are and what the lock would refuse.
type doctor struct {
	masters
	json bool
}

func (d *doctor) define(fs *pflag.FlagSet) {
	d.masters.define(fs, "nodes", "", "the masters")
	d.masters.anyCount = true
	d.defineFile(fs)
	d.defineFixed(fs)
	defineJSON(fs, &d.json)
}

func (d *doctor) run(ctx context.Context, o output) error {
	patients := make([]patient, len(d.nodes))
	var g errgroup.Group
	for i, url := range d.nodes {
		g.Go(func() error {
			patients[i] = examine(ctx, url, protocol.Namespace(d.namespace))
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	status, err := admin.ReadStatus(ctx, d.list())
	if ctx.Err() != nil { // what was not heard is no verdict
		return ctx.Err()
	}
	d.fitStatus(status)
	v := judge(patients, d.maxTTL, status, err)
	if d.namespace != "" && err == nil {
		v.ACL = "ACL SETUSER " + d.namespace + " reset resetchannels on >PASSWORD " + strings.Join(protocol.Namespace(d.namespace).ACL(), " ")
	}
	if !d.json {
		v.print(o.out)
	} else {
		v.failure = failureOf(v.ExitCode, nil)
		if err := writeJSON(o.out, v); err != nil {
			return err
		}
	}
	if v.ExitCode != exitOK {
		return &exitError{code: v.ExitCode}
	}
	return nil
}

// refused is the standing of masters with which the lock would not work.
const refused = "refused"

// verdict is what was found, and what the library makes of it. Its fields are those of --json.
type verdict struct {
	Standing   string      `json:"standing"` // refused, or as status says
	ExitCode   int         `json:"exit_code"`
	Reason     string      `json:"reason,omitempty"`
	Text       string      `json:"text,omitempty"`
	Complaints []complaint `json:"complaints,omitempty"`
	Masters    []patient   `json:"masters"`
	ACL        string      `json:"acl,omitempty"` // the command that makes the user of the namespace
	failure
}

// complaint is what is wrong with single masters.
type complaint struct {
	Kind   string `json:"kind"` // refused, down, lacks, far or failover
	Text   string `json:"text"`
	Cause  string `json:"cause,omitempty"` // a word that never changes: docs/messages.md
	Remedy string `json:"remedy,omitempty"`
}

// complaint is err of the master, with what to do about it.
func (p *patient) complaint(kind string, err error) complaint {
	c := cause.Of(err)
	return complaint{kind, p.Name + ": " + cause.Said(err), c.Word, c.Remedy}
}

func judge(patients []patient, maxTTL time.Duration, status *admin.Status, err error) verdict {
	for i := range patients {
		patients[i].is(status)
	}
	v := verdict{Masters: patients}
	bad := v.complain()
	v.Complaints = slices.Concat(v.Complaints, lacking(patients), far(patients), failover(patients, maxTTL))
	switch {
	case err != nil:
		v.Standing, v.ExitCode, v.Text = refused, exitRefused, strings.TrimPrefix(strings.TrimPrefix(plain(err), "status: "), "bad configuration: ")
	case bad && status.Standing != admin.NoQuorum:
		v.Standing, v.ExitCode = refused, exitRefused
	case status.Standing == admin.NotThisList:
		v.Standing, v.ExitCode, v.Text = refused, exitRefused, status.Text
	default:
		v.Standing, v.ExitCode, v.Reason, v.Text = status.Standing.String(), exitOf(status.Standing), status.Reason, status.Text
	}
	return v
}

func (v *verdict) print(w io.Writer) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "master\tserver\teviction\taof\tclock\tstate")
	for _, p := range v.Masters {
		clock := silent
		if p.Clock != nil {
			clock = p.Clock.String()
		} else if p.Server != silent {
			clock = unknown
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Server, p.Eviction, p.AOF, clock, p.State)
	}
	_ = tab.Flush()
	fmt.Fprintln(w)
	if v.ACL != "" { // one line, to be copied
		fmt.Fprintf(w, "the user of the namespace, on each master:\n\n%s\n\n", v.ACL)
	}
	for _, p := range v.Masters {
		if p.why != "" {
			text.Paragraph(w, p.State, p.Name+": "+p.why)
		}
	}
	for i, c := range v.Complaints {
		text.Paragraph(w, c.Kind, c.Text)
		again := i+1 < len(v.Complaints) && v.Complaints[i+1].Remedy == c.Remedy
		if !again && !strings.Contains(c.Text, c.Remedy) {
			text.Paragraph(w, "do", strings.TrimPrefix(c.Remedy, "do "))
		}
	}
	switch {
	case v.Standing != refused:
		text.Say(w, v.Standing+": "+v.Text)
	case v.Text != "":
		text.Paragraph(w, refused, v.Text)
	}
}

// is takes in what the library says of the master.
func (p *patient) is(s *admin.Status) {
	if s == nil {
		return
	}
	for i := range s.Masters {
		if m := &s.Masters[i]; m.Name == p.Name {
			p.State, p.Cause = m.State.String(), m.Cause
			if m.Err == nil {
				p.why = whyOf(m)
			}
		}
	}
}

// complain finds what is wrong with single masters, and reports whether one would be refused. One that is named twice would have two
// votes.
func (v *verdict) complain() (bad bool) {
	names := make(map[string]string)
	for _, p := range v.Masters {
		switch first, ok := names[p.runID]; {
		case p.err != nil && p.down():
			v.Complaints = append(v.Complaints, p.complaint(event.MasterDown.String(), p.err))
			continue
		case p.err != nil:
			v.Complaints, bad = append(v.Complaints, p.complaint(refused, p.err)), true
		case ok && p.runID != "": // a master that did not say in time who it is may be any
			v.Complaints = append(v.Complaints, complaint{refused, fmt.Sprintf("%s and %s are the same master: name it once", first, p.Name), "same master", "name it once"})
			bad = true
		}
		names[p.runID] = p.Name
	}
	return bad
}

// down says whether the line about a master calls it down: as its row does, which has the word of the library, and by what was heard where that
// has none or saw no fault.
func (p *patient) down() bool {
	return p.State == event.MasterDown.String() || p.State != event.MasterRefuses.String() && !p.reached
}

const (
	silent  = "-"       // stands where a master did not answer at all
	unknown = "unknown" // stands where it would not tell
)

// patient is what one master says of itself, as the table shows it, and what the library says of it.
type patient struct {
	Name     string  `json:"name"`
	Server   string  `json:"server"`
	Eviction string  `json:"eviction"`
	AOF      string  `json:"aof"`
	Clock    *offset `json:"clock,omitempty"` // nil: it did not say
	State    string  `json:"state"`           // votes, recovers, refuses or down
	Cause    string  `json:"cause,omitempty"`

	why      string // its cause and what is left, if it answers and does not vote
	record   string // its key
	runID    string
	failover behind
	lacks    lacks
	reached  bool
	err      error // why it would not be let in
}

// examine asks one master.
func examine(ctx context.Context, url string, ns protocol.Namespace) patient {
	p := patient{Name: silent, Server: silent, Eviction: silent, AOF: silent, State: silent}
	n, err := node.Open(url, node.Config{DialTimeout: masterurl.Patience})
	if err != nil {
		p.err = err
		return p
	}
	defer n.Close()
	writes := make(chan error, 1) // why the master refuses to write
	readers := make(chan []string, 1)
	n.Bind(protocol.Binding{
		Namespace: ns,
		Writes:    func(err error) { offer(writes, err) },
		Admit:     func(id protocol.Identity) error { offer(readers, id.NoReaders); return nil },
	})
	p.Name, p.record = n.Name(), ns.Record(n.Tag())
	c, err := p.connect(ctx, n)
	var reply redis.Error
	if err != nil {
		p.reached, p.err = errors.As(err, &reply), err
		return p
	}
	defer c.Close()
	info, err := c.Info(ctx).Result()
	p.reached = err == nil || errors.As(err, &reply)
	if err == nil {
		p.runID = protocol.InfoField(info, "run_id")
		p.Server, p.Eviction = protocol.ReadIdentity(info, "").Version, cmp.Or(protocol.InfoField(info, "maxmemory_policy"), unknown)
		p.AOF = aof(ctx, c, info)
		p.Clock = clockOffset(ctx, c)
		p.failover = behindFailover(ctx, c, info, url, n)
		p.lacks.subscribe = hears(ctx, c, ns)
		if err := protocol.ReadIdentity(info, "").Check(); err != nil {
			p.err = err
		}
	}
	if p.err == nil {
		p.err = n.Ready(ctx) // what the library itself says, so that we never say anything else
	}
	if p.err == nil && len(writes) > 0 {
		p.err = <-writes
	}
	if len(readers) > 0 {
		p.lacks.readers = <-readers
	}
	return p
}

// offer puts v into c if that has room.
func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// connect returns a client of the master: of a slot of a cluster, whomever a server of it names.
func (p *patient) connect(ctx context.Context, n node.Node) (*redis.Client, error) {
	servers, err := masterurl.Direct(n)
	if err != nil {
		return nil, err
	}
	if n.Tag() == "" {
		return redis.NewClient(servers[0]), nil
	}
	var last error
	for _, o := range servers {
		for range 5 {
			c := redis.NewClient(o)
			last = c.Exists(ctx, p.record).Err()
			moved, ok := masterurl.Moved(n, last, o.Addr)
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

// offset is how far a master's clock is ahead of this host's.
type offset struct {
	Ahead float64 `json:"ahead_ms"`
	Error float64 `json:"error_ms"`
}

func (o *offset) String() string { return fmt.Sprintf("%+.2f ±%.2f ms", o.Ahead, o.Error) }

// clockOffset is the master's offset by the fastest of a few round trips: the faster, the surer.
func clockOffset(ctx context.Context, c *redis.Client) *offset {
	best, ahead := time.Duration(-1), time.Duration(0)
	for range 5 {
		sent := time.Now()
		theirs, err := c.Time(ctx).Result()
		trip := time.Since(sent)
		if err != nil {
			return nil
		}
		if best < 0 || trip < best {
			best, ahead = trip, theirs.Sub(sent.Add(trip/2))
		}
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &offset{ms(ahead), ms(best / 2)}
}
