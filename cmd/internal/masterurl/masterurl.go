// SPDX-License-Identifier: Apache-2.0

// Package masterurl has the URLs of masters as a flag, and connects to one of them past the lock.
package masterurl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlock-go/redlock/node"
)

// URLs is a flag of one or more masters.
type URLs []string

// String returns nothing: the URLs may hold passwords, and there is no default to show.
func (u *URLs) String() string { return "" }

// Type implements pflag.Value.
func (u *URLs) Type() string { return "URL,URL,..." }

// Set implements [flag.Value]. A package of flags prints what it refuses, and the commands take passwords out of that: it is what is
// between the first :// and the last @. So Set refuses only a list that has both, and its error has neither.
func (u *URLs) Set(s string) error {
	*u = nil
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word) // a list may stand on several lines
		if n := len(*u); n > 0 && !strings.Contains(word, "://") {
			switch last := (*u)[n-1]; {
			case hasHosts(last):
				(*u)[n-1] += "," + word // another of its servers or sentinels
				continue
			case strings.Contains(word, "@") && strings.Contains((*u)[0], "://"):
				return errors.New("a part of the list is no URL: its scheme lacks the colon, or a comma in a user name or password ended the part before (a comma in a password is %2C)")
			}
		}
		*u = append(*u, word)
	}
	return nil
}

// IsCluster reports whether url names a slot of a Redis Cluster.
func IsCluster(url string) bool { return strings.Contains(url, "-cluster://") }

// hasHosts reports whether url may name several servers.
func hasHosts(url string) bool { return IsCluster(url) || strings.Contains(url, "-sentinel://") }

// Patience is how long a command waits for a connection, and for each answer. One packet of a handshake that is lost costs TCP a second.
const Patience = 2 * time.Second

// Direct is how a command talks to the servers of a node itself, until the node is closed: without retries, and with the fewest words
// at the start. In a Redis Cluster they are those at which the search for the master starts, and else it is the master.
func Direct(n node.Node) (all []*redis.Options, err error) {
	d, ok := n.(interface{ Direct() []redis.Options })
	if !ok {
		return nil, fmt.Errorf("--nodes: %s cannot be asked", n.Name())
	}
	for _, o := range d.Direct() {
		o.MaxRetries, o.DialerRetries = -1, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Patience, Patience, Patience
		o.ContextTimeoutEnabled = true
		o.DisableIdentity = true
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
		all = append(all, &o)
	}
	return all, nil
}

// Moved is the server that answers in place of the one at asked, if err is its MOVED.
func Moved(n node.Node, err error, asked string) (addr string, ok bool) {
	m, ok := n.(interface {
		Moved(err error, asked string) (string, bool)
	})
	if !ok {
		return "", false
	}
	return m.Moved(err, asked)
}

// Connection is how a command talks to the master at url, which has an address.
func Connection(url string) (*redis.Options, error) {
	if hasHosts(url) {
		return nil, errors.New("--nodes: name each master by its address, redis://host:port or rediss://host:port")
	}
	n, err := node.Open(url, node.Config{})
	if err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	defer n.Close()
	all, err := Direct(n)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
