// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/redlock"
)

// otherDatabases returns an error if another database of the masters' servers has records of this
// list. Nothing in the database of the URLs can show that: it looks like new masters, and after
// Init each database would grant every lock once. A list that was left for another one is no
// obstacle, although the masters that did not answer the change still have its record: they are
// less than a quorum.
//
// What the user of the URLs may not read is passed over, and so is a master that does not answer:
// Init itself needs an answer of each.
func (op *operation) otherDatabases(ctx context.Context) error {
	lists := make(map[int]*listElsewhere)
	for _, n := range op.cfg.Nodes {
		server, ok := n.(interface {
			OtherRecords(ctx context.Context) (map[int]map[string]string, error)
		})
		if !ok {
			continue
		}
		found, _ := server.OtherRecords(ctx)
		for db, fields := range found {
			r, err := membership.ParseRecord(fields)
			if err != nil || r.Terms == nil || !sameServers(r.Terms, op.cfg.Terms) {
				continue
			}
			l := lists[db]
			if l == nil {
				l = &listElsewhere{}
				lists[db] = l
			}
			if r.Finished() {
				l.left++
			} else {
				l.stands, l.at, l.terms = l.stands+1, n.Name(), r.Terms
			}
		}
	}
	for _, db := range slices.Sorted(maps.Keys(lists)) {
		l := lists[db]
		if l.stands == 0 || l.left > 0 && l.stands < l.terms.Quorum() {
			continue
		}
		return fmt.Errorf("%w: %s: database %d of that server has a record of this list (%v; you gave %v): name database %d in all URLs, or two programs can hold one lock; "+
			"for a second set of locks on these masters use a namespace; if no program uses database %d any more, delete the key of the record there",
			redlock.ErrConfig, l.at, db, l.terms, op.cfg.Terms, db, db)
	}
	return nil
}

// listElsewhere is what another database has of a list: on how many masters its record stands, and
// on how many it was left for another list.
type listElsewhere struct {
	stands, left int
	at           string            // a master on which it stands
	terms        *membership.Terms // of that master's record
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
