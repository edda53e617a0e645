// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"testing"
)

// A cluster of somebody else's masters starts nothing, and cannot stop or empty them.
func TestOpen_nodes_touchesNothing(t *testing.T) {
	c, err := Open(t.Context(), Config{Nodes: []string{"redis://ann:secret@127.0.0.1:1/3?name=a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, c.Close()) }()
	m := c.Masters()[0]
	username, password, db := m.Login()
	if c.Driver() != Nodes || m.Addr() != "127.0.0.1:1" || username != "ann" || password != "secret" || db != 3 {
		t.Errorf("%s, %s, %s, %s, %d", c.Driver(), m.Addr(), username, password, db)
	}
	for what, err := range map[string]error{"Kill": m.Kill(t.Context()), "Pause": m.Pause(t.Context())} {
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s returned %v", what, err)
		}
	}
	if err := errors.Join(m.Start(t.Context()), m.Unpause(t.Context())); err != nil {
		t.Errorf("a master that runs cannot be said to run: %v", err)
	}
	if _, err := m.Replica(t.Context()); err == nil {
		t.Error("it has a replica")
	}
	if err := m.Wipe(t.Context()); err == nil {
		t.Error("it was emptied")
	}
}

func TestParseNode_bad_hidesThePassword(t *testing.T) {
	for _, u := range []string{"", "host:1", "redis://", "rediss://:secret@h:1", "redis-sentinel://:secret@h:1/x", "redis://:secret@h:1/x", "redis://:secret%zz@h:1", "redis://u:secret@h:1?frob=1"} {
		if _, err := ParseNode(u); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
}
