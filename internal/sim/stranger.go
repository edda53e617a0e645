// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// stranger starts a process with three of the masters as its list. It must be refused. If it is not, it takes locks as all others do, for
// as long as a fault lasts.
func (w *world) stranger(rnd *rand.Rand) fault {
	w.started++
	m := w.newMember(2000 + w.started)
	m.rough.Store(true)
	masters := rnd.Perm(len(w.masters))[:3]
	slices.Sort(masters)
	w.strangers.Go(func() {
		if m.openSome(masters) == nil {
			newWorker(m, m.running(), 0).run(time.Now().Add(w.cfg.Pace))
			m.close()
		}
	})
	return goesWrong("misconfigure", fmt.Sprintf("client %d started with masters %v", m.id, masters), func() {})
}

// openSome starts a client with some of the masters.
func (m *member) openSome(masters []int) error {
	p := m.begin()
	nodes := m.connect(p, masters)
	ctx, cancel := context.WithTimeout(context.Background(), m.w.cfg.Pace)
	defer cancel()
	c, err := redlock.New(ctx, nodes, append(slices.Clone(m.opts), m.w.balanced())...)
	if err != nil {
		closeAll(nodes)
		return err
	}
	m.opened(p, c, nil)
	return nil
}
