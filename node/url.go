// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Open makes a node of a URL:
//
//	redis://[user:password@]host[:port][/db]     one master
//	rediss://...                                 the same over TLS
//	unix://[user:password@]/path/to.sock[?db=N]  the same over a socket
//	redis-sentinel://[user:password@]host[:port][,host[:port]...]/name[/db]
//	rediss-sentinel://...                        the master that sentinels call name
//
// User and password of a sentinel URL are the master's; the sentinels' own go
// into ?sentinel_username=&sentinel_password=. In all forms ?name=m1 gives the node
// a name instead of its address, for clients that reach one master by different
// addresses: they must name it alike. The other query parameters of
// redis.ParseURL are understood in the first three forms; those that set
// timeouts, retries or pools are ignored, for the lane has its own.
//
// It does not connect; see Ready. An error names the fault and never the
// password.
func Open(rawURL string, cfg Config) (*Redis, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, fmt.Errorf("node: %q is no URL: want redis://host:port", redact(rawURL))
	}
	rest, name, err := cutName(rest)
	if err != nil {
		return nil, fmt.Errorf("node: bad URL %q: the query cannot be read", redact(rawURL))
	}
	var r *Redis
	if scheme == "redis-sentinel" || scheme == "rediss-sentinel" {
		r, err = openSentinel(scheme, rest, cfg)
		if err != nil {
			return nil, err
		}
	} else {
		opts, err := redis.ParseURL(scheme + "://" + rest)
		if err == nil && opts.Network == "tcp" {
			err = checkPort(opts.Addr)
		}
		if err != nil {
			return nil, fmt.Errorf("node: bad URL %q: %s (want redis://host:port, rediss:// or redis-sentinel://)",
				redact(rawURL), reason(rawURL, err))
		}
		r = open(*opts, cfg)
	}
	if name != "" {
		r.name = name
	}
	return r, nil
}

// cutName takes the parameter name out of a URL's rest.
func cutName(rest string) (without, name string, err error) {
	path, query, ok := strings.Cut(rest, "?")
	if !ok {
		return rest, "", nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", fmt.Errorf("query cannot be read")
	}
	name = values.Get("name")
	values.Del("name")
	if len(values) == 0 {
		return path, name, nil
	}
	return path + "?" + values.Encode(), name, nil
}

// openSentinel takes a URL apart by hand: net/url refuses a list of hosts.
func openSentinel(scheme, rest string, cfg Config) (*Redis, error) {
	bad := func(what string) error {
		return fmt.Errorf("node: bad URL %q: %s (want %s://host:port,host:port/master-name)",
			redact(scheme+"://"+rest), what, scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at], authority[at+1:]
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, bad("query cannot be read")
	}
	name, db, _ := strings.Cut(path, "/")
	if name, err = url.PathUnescape(name); err != nil || name == "" {
		return nil, bad("no master name")
	}
	fo := &redis.FailoverOptions{
		MasterName:       name,
		SentinelUsername: values.Get("sentinel_username"),
		SentinelPassword: values.Get("sentinel_password"),
	}
	username, password, _ := strings.Cut(user, ":")
	if fo.Username, err = url.PathUnescape(username); err != nil {
		return nil, bad("user name cannot be read")
	}
	if fo.Password, err = url.PathUnescape(password); err != nil {
		return nil, bad("password cannot be read")
	}
	if db != "" {
		if fo.DB, err = strconv.Atoi(db); err != nil || fo.DB < 0 {
			return nil, bad("database is no number")
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := sentinelAddr(host)
		if err != nil {
			return nil, bad(err.Error())
		}
		fo.SentinelAddrs = append(fo.SentinelAddrs, addr)
	}
	if scheme == "rediss-sentinel" {
		fo.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	fo.MaxRetries, fo.DialerRetries = -1, 1
	fo.DialTimeout = cfg.withDefaults().DialTimeout
	fo.ReadTimeout, fo.WriteTimeout = fo.DialTimeout, fo.DialTimeout
	fo.ContextTimeoutEnabled = true
	client := redis.NewFailoverClient(fo) // for its dialer: it asks the sentinels
	r, err := New(client, cfg)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	r.name, r.owned = "sentinel:"+name, client
	return r, nil
}

// sentinelAddr is host with the port that sentinels listen on by default.
func sentinelAddr(host string) (string, error) {
	if host == "" {
		return "", errors.New("an empty host")
	}
	h, port, err := net.SplitHostPort(host)
	if err != nil {
		h, port = strings.Trim(host, "[]"), "26379"
	}
	addr := net.JoinHostPort(h, port)
	return addr, checkPort(addr)
}

// checkPort does not quote the port: it may be a piece of a password.
func checkPort(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return errors.New("the port is no number from 1 to 65535")
	}
	return nil
}

// redact takes user and password out of a URL, even of one that cannot be read.
func redact(rawURL string) string {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		scheme, rest = "", rawURL
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	rest = passwordParam.ReplaceAllString(rest, "password=***")
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

var passwordParam = regexp.MustCompile("(?is)password=.*")

// reason is what err says, when it cannot tell a password: net/url and go-redis
// quote the piece that they stumbled over, and a password whose /, ? or # is not
// encoded is cut into pieces.
func reason(rawURL string, err error) string {
	if strings.Contains(rawURL, "@") {
		return "it cannot be read; are the special characters in user and password percent-encoded?"
	}
	if u, ok := err.(*url.Error); ok {
		return u.Err.Error()
	}
	return err.Error()
}
