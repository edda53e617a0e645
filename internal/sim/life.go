// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// live restarts the process now and then, with a list of that time, until stop is closed. The leases of a process that ends
// are not given back.
func (m *member) live(stop <-chan struct{}) {
	o, rnd := m.w.op, m.w.rand(fmt.Sprintf("life %d", m.id))
	life := time.Duration(rnd.ExpFloat64() * float64(4*m.w.cfg.MaxTTL))
	for {
		timer := time.NewTimer(life)
		select {
		case <-timer.C:
		case <-m.again:
		case <-stop:
			timer.Stop()
			return
		}
		timer.Stop()
		m.mu.Lock()
		away, start := m.away, m.notYet
		m.mu.Unlock()
		if away {
			life = m.w.cfg.MaxTTL / 10
			continue
		}
		m.close()
		time.Sleep(time.Until(start))
		l, right := o.choose(rnd)
		life = time.Duration(rnd.ExpFloat64() * float64(4*m.w.cfg.MaxTTL))
		if m.openList(l) != nil || !right {
			life = time.Duration(rnd.Int64N(int64(m.w.cfg.MaxTTL)))
		}
	}
}

// openList starts a client with a list.
func (m *member) openList(l *list) error {
	p := m.begin()
	nodes := m.connect(p, l.masters)
	// A process that finds no quorum is started anew, as its supervisor would, perhaps with another list.
	ctx, cancel := context.WithTimeout(context.Background(), m.w.cfg.MaxTTL/4)
	defer cancel()
	c, err := redlock.New(ctx, nodes, append(m.options(l), m.w.balanced())...)
	if err != nil {
		closeAll(nodes)
		return err
	}
	m.opened(p, c, l)
	o := m.w.op
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stepped.IsZero() && time.Since(o.stepped) < m.w.cfg.MaxTTL {
		o.acts[ActFresh]++
	}
	return nil
}

// restart ends the process soon, and has it start again then.
func (m *member) restart(then time.Time) {
	m.mu.Lock()
	m.notYet = then
	m.mu.Unlock()
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// setAway cuts the process off from all masters, and keeps it from being restarted, until it is called again.
func (m *member) setAway(away bool) {
	m.mu.Lock()
	m.away = away
	m.mu.Unlock()
	for _, x := range m.wires {
		x.set(func(x *wire) { x.away = away })
	}
}
