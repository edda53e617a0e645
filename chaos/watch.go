// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Progress says how far a run is.
type Progress struct {
	Elapsed time.Duration
	Granted int               // locks granted so far
	Holder  string            // the client that reported last that it holds the hot lock, or empty
	Votes   []history.Outcome // of each master: OK it votes, Failed it does not vote yet, Unknown it does not answer
	Faults  []string          // the nemeses that are striking
	Struck  int               // faults so far
}

// faultLog knows which nemeses are striking and how often each has struck. Any goroutine may call its methods.
type faultLog struct {
	mu     sync.Mutex
	next   int
	on     map[int]string
	counts map[string]int
}

func (l *faultLog) begin(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on == nil {
		l.on, l.counts = map[int]string{}, map[string]int{}
	}
	l.next++
	l.on[l.next] = name
	return l.next
}

func (l *faultLog) end(id int, name string, applied bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.on, id)
	if applied {
		l.counts[name]++
	}
}

func (l *faultLog) now() (on []string, struck int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.counts {
		struck += n
	}
	return slices.Sorted(maps.Values(l.on)), struck
}

// watchEvery is how often watch looks at each master: several times during a quarantine.
const watchEvery = 200 * time.Millisecond

// watch records, until ctx ends, whether each master votes and what keys it has, and once a second its counters. It connects past the proxies, because
// it records the state of the masters and not what a client sees of them.
func (r *run) watch(ctx context.Context) error {
	begun := time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		votes := make([]history.Outcome, len(r.target.Nodes))
		errs := make([]error, len(r.target.Nodes))
		var wg sync.WaitGroup
		for i, nd := range r.target.Nodes {
			wg.Go(func() { votes[i], errs[i] = r.look(ctx, nd, n%5 == 0) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil || ctx.Err() != nil {
			return err
		}
		if r.cfg.Progress != nil {
			p := Progress{Elapsed: time.Since(begun), Votes: votes}
			var latest time.Time
			for _, c := range r.clients {
				p.Granted += c.granted()
				if now := c.now(); now.Took(r.cfg.Prefix + string(workload.Hot)).After(latest) {
					latest, p.Holder = now.Took(r.cfg.Prefix+string(workload.Hot)), now.Name()
				}
			}
			p.Faults, p.Struck = r.faults.now()
			r.cfg.Progress(p)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look records whether a master votes, and its keys. If closely is set, once a second, it also records its counters.
func (r *run) look(ctx context.Context, n *nemesis.Node, closely bool) (history.Outcome, error) {
	v := history.Vote{Node: n.Name(), Call: history.Now()}
	var record map[string]string
	var incarnation string
	over := ctx.Err // if the run ended during the look, the look says nothing about the master
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	err := n.Admin(ctx, func(ctx context.Context, c *redis.Client, life int) error {
		v.Call = history.Now() // Admin may have waited until a fault was over
		id, rec, err := state(ctx, c)
		record, incarnation = rec, fmt.Sprintf("%s.%d", id, life)
		v.Return = history.Now()
		if err != nil {
			return err
		}
		rs, err := membership.ParseRecordState(rec["state"])
		if err == nil && rs.Phase == membership.Voting && rs.Incarnation == id {
			v.Outcome = history.OK
		} else {
			v.Outcome, v.Error = history.Failed, "does not vote"
		}
		// Masters of somebody else have other keys too: they are scanned as seldom as was announced.
		if closely || len(r.cfg.Nodes) == 0 {
			_, _ = r.scanNode(ctx, n.Name(), c) // after an error a later look scans again
		}
		return nil
	})
	if err != nil && over() != nil {
		return history.Unknown, nil
	}
	if err != nil {
		v.Return, v.Outcome, v.Error = history.Now(), history.Unknown, "no answer"
	}
	if v.Outcome == history.OK {
		r.target.Voting(n)
	}
	if err := r.history.Append(v); err != nil {
		return v.Outcome, err
	}
	if !closely || v.Outcome == history.Unknown {
		return v.Outcome, nil
	}
	return v.Outcome, r.appendCounters(v, incarnation, record)
}

// mostCounters bounds how many counters of a master one look records. The locks of a run have fewer. A master whose counters were lost on
// a majority has a thousand afterwards.
const mostCounters = 256

func (r *run) appendCounters(v history.Vote, incarnation string, record map[string]string) error {
	counters, err := protocol.ReadCounters(record)
	if err != nil {
		return fmt.Errorf("chaos: %s: %w", v.Node, err)
	}
	slots := slices.Sorted(maps.Keys(counters))
	for _, slot := range slots[:min(len(slots), mostCounters)] {
		c := history.Counter{Node: v.Node, Incarnation: incarnation, Slot: slot, Call: v.Call, Return: v.Return, Value: counters[slot]}
		if err := r.history.Append(c); err != nil {
			return err
		}
	}
	return nil
}

// state reads a master's incarnation and its node record in one transaction.
func state(ctx context.Context, c *redis.Client) (incarnation string, record map[string]string, err error) {
	var info []*redis.StringCmd
	var rec *redis.MapStringStringCmd
	_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, section := range protocol.InfoSections {
			info = append(info, p.Info(ctx, section))
		}
		rec = p.HGetAll(ctx, protocol.RecordKey)
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	text := ""
	for _, section := range info {
		text += section.Val()
	}
	id := protocol.ReadIdentity(text, rec.Val()[membership.FieldState])
	return id.Incarnation(), rec.Val(), nil
}
