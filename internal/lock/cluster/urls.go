// SPDX-License-Identifier: Apache-2.0

// Package cluster makes one Redis Cluster the masters of a client: each vote is a slot of it. It gives the votes their URLs and tags ([Parse]), and the
// locks the names that they have in each slot ([Vote]). It knows nothing of locks that are held.
package cluster

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/redact"
)

// URL is the URL of a whole cluster.
type URL struct {
	base   string
	params string // those of TLS, each with & before it
	name   string // begins the names of the votes; empty: they are their tags
}

// Parse returns the URL, or what is wrong with it.
func Parse(rawURL string) (URL, error) {
	base, params, _ := strings.Cut(rawURL, "?")
	if scheme, _, _ := strings.Cut(base, "://"); scheme != "redis-cluster" && scheme != "rediss-cluster" {
		return URL{}, fmt.Errorf("%w: %q is no URL of a whole cluster: want redis-cluster://host:port,host:port or rediss-cluster://", errs.ErrConfig, redact.URL(rawURL))
	}
	query, err := url.ParseQuery(params)
	if err != nil {
		return URL{}, fmt.Errorf("%w: the parameters of the whole cluster %q cannot be read: write them as name=value&name=value, and special characters as %%XX", errs.ErrConfig, redact.URL(rawURL))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains([]string{"cert", "key", "ca", "server_name", "name"}, name) {
			continue
		}
		what := "a parameter"
		if redact.Param(name) && !strings.Contains(params, "@") {
			what = fmt.Sprintf("parameter %q", name)
		}
		return URL{}, fmt.Errorf("%w: %s in the URL of the whole cluster %q: want none but name, cert, key, ca and server_name; OpenCluster chooses the tags",
			errs.ErrConfig, what, redact.URL(rawURL))
	}
	name := query.Get("name")
	if name != "" {
		query.Del("name")
		params = query.Encode()
	}
	if params != "" {
		params = "&" + params
	}
	return URL{strings.TrimSuffix(base, "/"), params, name}, nil
}

// Votes returns the URLs of n votes.
func (u URL) Votes(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = u.base + "/?tag=" + tag(i, n) + u.params
		if u.name != "" {
			urls[i] += "&name=" + url.QueryEscape(u.name+"/"+tag(i, n))
		}
	}
	return urls
}

const (
	slots = 16384
	// Reserved begins the names that a lock has on the masters of a cluster.
	Reserved = "{redlock."
)

// tag is the tag of vote i of n: the first whose slot is in the middle half of that vote's share
// of the slots. It is part of the epoch, so it must not change: two clients with different tags would
// not exclude each other.
func tag(i, n int) string {
	for k := 0; ; k++ {
		t := fmt.Sprintf("redlock.%d.%d.%d", n, i, k)
		if s := 4 * n * slot(t); s >= (4*i+1)*slots && s < (4*i+3)*slots {
			return t
		}
	}
}

// slot is the slot of a key without braces: CRC16 (XMODEM) of it.
func slot(key string) int {
	crc := uint16(0)
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			top := crc & 0x8000
			crc <<= 1
			if top != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slots
}
