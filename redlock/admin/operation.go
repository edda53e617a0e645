// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/hostpid"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/masters/driver"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// operation is one call of an operator's function, such as Init. It has the masters of one or
// two lists.
type operation struct {
	cfg     driver.Config
	servers []*server   // of cfg.Nodes
	aliases []alias     // of a change
	owned   []node.Node // the nodes that close closes
	runs    masters.Runs
	writes  refusals
	driver  atomic.Pointer[driver.Driver] // nil before the first look
}

// refusals has why masters refuse to write, by name.
type refusals struct{ sync.Map }

// of returns why the master called name refuses to write, or nil.
func (r *refusals) of(name string) error {
	err, _ := r.Load(name)
	if err, ok := err.(error); ok {
		return err
	}
	return nil
}

// operate opens the masters of the lists and waits for their first answers. It fails if a master
// that answers is unfit to vote. to is nil except for a change.
func operate(ctx context.Context, goal membership.Goal, from List, to *List) (*operation, error) {
	op, err := open(ctx, goal, from, to)
	if err != nil {
		return nil, err
	}
	if err := op.ready(ctx); err != nil {
		op.close()
		return nil, err
	}
	return op, nil
}

// open makes the nodes of the lists. It sends nothing.
func open(ctx context.Context, goal membership.Goal, from List, to *List) (*operation, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	from = from.named()
	if to != nil {
		next := to.named()
		to = &next
	}
	s, err := settings(from.Options)
	if err != nil {
		return nil, err
	}
	if to != nil {
		if t, err := settings(to.Options); err == nil && t.Namespace != s.Namespace {
			return nil, fmt.Errorf("%w: the lists are of the namespaces %q and %q: each namespace is changed by itself", redlock.ErrConfig, s.Namespace, t.Namespace)
		}
	}
	op := &operation{cfg: driver.Config{Goal: goal, Namespace: string(s.Namespace), Clock: s.Clock,
		Timeout: func() time.Duration { return max(s.NodeTimeout, answerTimeout) },
		Rand:    s.Rand, Who: hostpid.Name()}}
	if op.cfg.Terms, err = op.add(from, true); err == nil && to != nil {
		op.cfg.Target, err = op.add(*to, false)
	}
	if err != nil {
		op.close()
		return nil, err
	}
	op.cfg.Probe = func(i int) bool { return op.writes.of(op.cfg.Nodes[i].Name()) != nil }
	op.cfg.URLs = "from " + shown(from) + " to "
	if to != nil {
		op.cfg.URLs += shown(*to)
	}
	return op, nil
}

// named is the list without the URLs that are not read because it has Nodes.
func (l List) named() List {
	if len(l.Nodes) > 0 {
		l.URLs = nil
	}
	return l
}

// add adds the masters of a list to the operation, and returns the terms of the list. A master
// that is in both lists has one node.
func (op *operation) add(list List, old bool) (*membership.Terms, error) {
	s, err := settings(list.Options)
	if err != nil {
		return nil, err
	}
	if err := s.CheckCount(len(list.URLs) + len(list.Nodes)); err != nil {
		return nil, err
	}
	if s.NoRecovery {
		return nil, fmt.Errorf("%w: masters of clients with WithUnsafeRecoveryOff have no records, so there is nothing to read or change", redlock.ErrConfig)
	}
	nodes := list.Nodes
	for i, u := range list.URLs {
		cfg := s.Node
		cfg.Clock, cfg.StallAfter = s.Clock, max(s.NodeTimeout, answerTimeout)
		cfg.DialTimeout = max(cfg.DialTimeout, answerTimeout) // one lost packet of a handshake costs TCP a second
		n, err := node.Open(u, cfg)
		if err != nil {
			return nil, fmt.Errorf("%w: master %d of %d: %w", redlock.ErrConfig, i+1, len(list.URLs), err)
		}
		op.owned = append(op.owned, n)
		nodes = append(nodes, n)
	}
	_, terms, err := s.Terms(nodes)
	if err != nil {
		return nil, err
	}
	for i, n := range nodes {
		at := &server{}
		if len(list.Nodes) == 0 {
			at.url = list.URLs[i]
		}
		k := slices.IndexFunc(op.cfg.Nodes, func(o node.Node) bool { return o.Name() == n.Name() })
		switch {
		case k < 0:
			k = len(op.cfg.Nodes)
			op.cfg.Nodes, op.servers = append(op.cfg.Nodes, n), append(op.servers, at)
			op.cfg.Old, op.cfg.New = append(op.cfg.Old, false), append(op.cfg.New, false)
			err = n.Bind(protocol.Binding{Namespace: s.Namespace, CheckRecordState: true, Drift: s.Drift,
				Admit: func(id protocol.Identity) error {
					at.runID.Store(id.RunID)
					return op.admit(k, id)
				},
				Writes:  func(err error) { op.writes.Store(n.Name(), err) },
				Trouble: func(err error) { op.trouble(k, err) }})
		case op.cfg.Nodes[k] != n && (at.url == "" || at.url != op.servers[k].url):
			op.aliases = append(op.aliases, alias{n, at, op.servers[k]})
			err = n.Bind(protocol.Binding{Namespace: s.Namespace, CheckRecordState: true, Drift: s.Drift,
				Admit: func(id protocol.Identity) error {
					at.runID.Store(id.RunID)
					return nil
				}})
		}
		if err != nil {
			return nil, masters.Spent(err)
		}
		op.cfg.Old[k], op.cfg.New[k] = op.cfg.Old[k] || old, op.cfg.New[k] || !old
	}
	return terms, nil
}

// admit refuses a master that is in a list already under another name: no client could open such a list. A change may lead to
// other databases of the same servers.
func (op *operation) admit(i int, id protocol.Identity) error {
	cfg := &op.cfg
	j := op.runs.Meet(i, id.RunID, func(j int) bool {
		return cfg.Old[i] && cfg.Old[j] || cfg.New[i] && cfg.New[j] ||
			database.FindString(cfg.Nodes[i].Name()) == database.FindString(cfg.Nodes[j].Name())
	})
	if j < 0 {
		return nil
	}
	return masters.Same(cfg.Nodes[j], cfg.Nodes[i], id)
}

// ready waits for the first answer of each master, for at most the time of one dial. It fails if
// one of them is the same as another one, or may not vote until somebody changes it, unless the operation takes that master
// away, or if a name leads to two servers. A master that does not answer is no error here: the operation finds out whether it needs that
// master.
func (op *operation) ready(ctx context.Context) error {
	all := slices.Clone(op.cfg.Nodes)
	for i := range op.aliases {
		all = append(all, op.aliases[i].node)
	}
	errs := masters.Ready(ctx, all)[:len(op.cfg.Nodes)]
	for i := range op.aliases {
		if err := op.aliases[i].check(); err != nil {
			return err
		}
	}
	for i, err := range errs {
		if errors.Is(err, node.ErrClosed) {
			return masters.Spent(err)
		}
		leaves := op.cfg.Goal == membership.Change && !op.cfg.New[i] || op.cfg.Goal == membership.Cancel
		if !leaves && masters.Unusable(err) && !errors.Is(err, node.ErrDenied) {
			return fmt.Errorf("%w: %w", redlock.ErrConfig, err)
		}
	}
	return wrongList(errs)
}

// wrongList returns the error of a master that is in the list twice, or nil.
func wrongList(errs []error) error {
	for _, err := range errs {
		if errors.Is(err, protocol.ErrSame) {
			return fmt.Errorf("%w: %w", redlock.ErrConfig, err)
		}
	}
	return nil
}

func (op *operation) close() { masters.CloseAll(op.owned) }

// drive has a driver take one step after the other: see [driver.Run].
func (op *operation) drive(ctx context.Context, next func(*driver.Outcome) (pause time.Duration, done bool, err error)) error {
	d := driver.New(op.cfg)
	op.driver.Store(d)
	return driver.Run(ctx, d, next)
}

// trouble tells the driver that the clock of master i moved against this host's. If it was this host's, every wait that it has timed
// begins anew. Before there is a driver, nothing is timed. The lane of the master calls it.
func (op *operation) trouble(i int, why error) {
	if d := op.driver.Load(); d != nil && errors.Is(why, node.ErrClock) {
		d.Jumped(i)
	}
}
