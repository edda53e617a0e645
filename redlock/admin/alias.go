// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// server is where a list has a master.
type server struct {
	url   string       // empty for a Node
	runID atomic.Value // a string: of the process that was met there; not set before
}

// alias is a master that both lists of a change have, each by a URL of its own. The change works with the one of the old list. The other is
// met, to see that it is the same: else the programs of the new list would lock on a server that the change has never seen.
type alias struct {
	node node.Node
	here *server // by the new list
	old  *server
}

// check returns an error if the name leads to two masters, or if it is not known.
func (a *alias) check() error {
	was, _ := a.old.runID.Load().(string)
	is, _ := a.here.runID.Load().(string)
	const advice = "give the master of the new list a name of its own (?name=NAME in its URL, and in those of all programs)"
	byURL := a.old.url != "" && a.here.url != ""
	switch {
	case was == "":
		return nil // a change that begins needs the master; one that has stopped the locks must be able to end without it
	case is == "":
		if byURL && a.old.address() != a.here.address() {
			return fmt.Errorf("%w: master %s has one address in the old list and another one in the new list, which does not answer, so nobody can tell whether it is one server: "+
				"if it is, give the same URL in both lists; if not, %s", redlock.ErrConfig, a.node.Name(), advice)
		}
	case was != is:
		return fmt.Errorf("%w: master %s is one server in the old list and another one in the new list (run_id %s and %s): %s", redlock.ErrConfig, a.node.Name(), was, is, advice)
	case byURL && a.old.database() != a.here.database():
		return fmt.Errorf("%w: master %s is database %s of its server in the old list and database %s in the new list: %s",
			redlock.ErrConfig, a.node.Name(), a.old.database(), a.here.database(), advice)
	}
	return nil
}

// address is where the URL leads, without the user and the parameters.
func (s *server) address() string {
	_, rest, _ := strings.Cut(s.url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// database is the one that the URL names.
func (s *server) database() string {
	scheme, rest, _ := strings.Cut(s.url, "://")
	rest, params, _ := strings.Cut(rest, "?")
	query, _ := url.ParseQuery(params)
	named := ""
	if scheme != "unix" { // there it is the path of a file
		named = strings.TrimPrefix(database.FindString(rest), "/")
	}
	return cmp.Or(query.Get("db"), named, "0")
}
