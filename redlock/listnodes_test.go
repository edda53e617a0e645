// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"

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
