// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/redlock-go/redlock/internal/membership"
)

// otherDatabases returns an error if another database of a master's server has a record of this
// list. Nothing in the database of the URLs can show that: it looks like new masters, and after
// Init each database would grant every lock once. A record of a list that was left for another one
// is no obstacle.
//
// What the user of the URLs may not read is passed over, and so is a master that does not answer:
// Init itself needs an answer of each.
func (op *operation) otherDatabases(ctx context.Context) error {
	for _, n := range op.cfg.Nodes {
		server, ok := n.(interface {
			OtherRecords(ctx context.Context) (map[int]map[string]string, error)
		})
		if !ok {
			continue
		}
		found, _ := server.OtherRecords(ctx)
		for _, db := range slices.Sorted(maps.Keys(found)) {
			r, err := membership.ParseRecord(found[db])
			if err != nil || r.Finished() || r.Terms == nil || !sameServers(r.Terms, op.cfg.Terms) {
				continue
			}
			return fmt.Errorf("%w: %s: database %d of that server has a record of this list (%v): name database %d in all URLs, or two programs can hold one lock; "+
				"for a second set of locks on these masters use a namespace; if no program uses database %d any more, delete the key of the record there",
				ErrConfig, n.Name(), db, r.Terms, db, db)
		}
	}
	return nil
}

// database is what a master's name ends with if its URL has a database other than 0.
var database = regexp.MustCompile(`/[0-9]+$`)

// sameServers reports whether the masters of both lists are the same servers, in whatever databases.
func sameServers(a, b *membership.Terms) bool {
	servers := func(t *membership.Terms) (names []string) {
		for _, name := range t.Masters {
			names = append(names, database.ReplaceAllString(name, ""))
		}
		slices.Sort(names)
		return names
	}
	return slices.Equal(servers(a), servers(b))
}
