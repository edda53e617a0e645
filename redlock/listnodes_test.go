// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// Nodes are used instead of URLs: a list that has both is that of its nodes.
func TestReadStatus_nodesAndURLs_nodesAlone(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		list, done := c.list(0, 1, 2)
		defer done()
		list.URLs = []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"}
		s, err := admin.ReadStatus(t.Context(), list)
		noErr(t, err)
		if len(s.Masters) != 3 || s.Masters[0].Name != c.masters[0].Name() {
			t.Errorf("%d masters, of %s", len(s.Masters), s.Text)
		}
	})
}

// A change may have the old list as nodes and the new one as URLs.
func TestReconfigure_nodesAndThenURLs_sameMasters(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	urls := startMasters(t, 3, localredis.Config{}).urls()
	noErr(t, admin.Init(t.Context(), admin.List{URLs: urls, Options: quick}, nil, admin.NothingWasEverLocked))
	old := admin.List{Options: quick}
	for _, u := range urls {
		n, err := node.Open(u, node.Config{})
		noErr(t, err)
		t.Cleanup(func() { _ = n.Close() })
		old.Nodes = append(old.Nodes, n)
	}
	next := admin.List{URLs: urls, Options: append(quick[:len(quick):len(quick)], redlock.WithMaxTTL(500*time.Millisecond))}
	noErr(t, admin.Reconfigure(t.Context(), old, next, nil))
	openAt(t, urls, next.Options...)
}
