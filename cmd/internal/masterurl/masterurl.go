// SPDX-License-Identifier: Apache-2.0

// Package masterurl has the URLs of masters as a flag, and connects to one of them past the lock.
package masterurl

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// URLs is a flag of one or more masters.
type URLs []string

// String returns nothing: the URLs may hold passwords, and there is no default to show.
func (u *URLs) String() string { return "" }

// Type implements pflag.Value.
func (u *URLs) Type() string { return "URL,URL,..." }

// Set implements [flag.Value]. It accepts everything: package flag would print what it does not, passwords included.
func (u *URLs) Set(s string) error {
	*u = nil
	for word := range strings.SplitSeq(s, ",") {
		if n := len(*u); n > 0 && IsCluster((*u)[n-1]) && !strings.Contains(word, "://") {
			(*u)[n-1] += "," + word // another of its servers
			continue
		}
		*u = append(*u, word)
	}
	return nil
}

// IsCluster reports whether url names a slot of a Redis Cluster.
func IsCluster(url string) bool { return strings.Contains(url, "-cluster://") }

// Connection is how a command talks to a master itself: without retries, and with the fewest words at the start.
func Connection(url string) (*redis.Options, error) {
	if path, query, ok := strings.Cut(url, "?"); ok { // a name is the library's, not go-redis's
		words := slices.DeleteFunc(strings.Split(query, "&"), func(w string) bool { return strings.HasPrefix(w, "name=") })
		url = path + "?" + strings.Join(words, "&")
	}
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("--nodes: an URL that cannot be read") // checked before; the error may hold the password
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = time.Second, 2*time.Second, 2*time.Second
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
	return o, nil
}
