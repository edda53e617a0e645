// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/redact"
	"github.com/redlock-go/redlock/node/internal/locate"
)

// Open makes a node of a URL:
//
//	redis://[user:password@]host[:port][/db]     one master
//	rediss://...                                 the same over TLS
//	unix://[user:password@]/path/to.sock[?db=N]  the same over a socket
//	redis-sentinel://[user:password@]host[:port][,host[:port]...]/name[/db]
//	rediss-sentinel://...                        the master that sentinels call name
//	redis-cluster://[user:password@]host[:port][,host[:port]...]/?tag=TAG
//	rediss-cluster://...                         the slot of {TAG} in a Redis Cluster
//
// In a sentinel URL, user and password are the master's. Those of the sentinels are the
// parameters ?sentinel_username=&sentinel_password=.
//
// In a cluster URL, name several servers: any of them that answers says where the slot is.
// If one master of a client is a cluster, all locks of the client are named {TAG}:name, on
// all its masters.
//
// Write special characters in a user name or a password percent-encoded: %23 for #, %2C
// for a comma.
//
// A node is named after its address and its database: "h:6379", or "h:6379/2" in database
// 2. In all forms ?name=m1 gives the node that name instead. It is for clients that reach
// one master at different addresses: they must all use the same name.
//
// With TLS (rediss://, rediss-sentinel:// and rediss-cluster://) four parameters say who trusts whom:
//
//	?cert=FILE&key=FILE   the client's certificate and its private key, for servers that want one
//	?ca=FILE              the authority of the servers' certificates, in place of those that the system trusts
//	?server_name=NAME     the name in the servers' certificates, in place of the host of the URL
//
// The files are PEM. Open reads them, so that what is wrong with one is an error now, and each new
// connection reads them again, so that a renewed certificate needs no restart.
//
// The first three forms accept the other query parameters of redis.ParseURL too. Open
// ignores those that set timeouts, retries or pools, because the node has its own. Any
// other parameter is an error.
//
// Open does not connect. An error names the fault and never the password.
func Open(rawURL string, cfg Config) (Node, error) {
	r, err := openURL(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func openURL(rawURL string, cfg Config) (*redisNode, error) {
	if strings.Contains(rawURL, "#") { // what is before it could be read as a URL of another server, and what follows as nothing
		return nil, errors.New("node: a URL with a #: write %23 for it, in a password too (want redis://host:port)")
	}
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, fmt.Errorf("node: %q is no URL: want redis://host:port", redact.URL(rawURL))
	}
	_, query, _ := strings.Cut(rest, "?")
	rest, name, files, err := cutOwn(rest)
	if err != nil {
		return nil, fmt.Errorf("node: bad URL %q: the query cannot be read", redact.URL(rawURL))
	}
	if err := files.check(scheme, query); err != nil {
		return nil, fmt.Errorf("node: bad URL %q: %w", redact.URL(rawURL), err)
	}
	var r *redisNode
	switch scheme {
	case "redis-sentinel", "rediss-sentinel":
		r, err = openSentinel(rawURL, rest, cfg, files)
	case "redis-cluster", "rediss-cluster":
		r, err = openCluster(rawURL, rest, cfg)
	default:
		r, err = openMaster(rawURL, scheme+"://"+rest, cfg)
	}
	if err != nil {
		return nil, err
	}
	if name = cmp.Or(name, cfg.Name); name != "" {
		r.name = name
	}
	r.tls = files
	return r, nil
}

// cutOwn removes the parameters name and those of tlsFiles from rest, which is what follows :// in a URL.
func cutOwn(rest string) (without, name string, files tlsFiles, err error) {
	path, query, ok := strings.Cut(rest, "?")
	if !ok {
		return rest, "", files, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", files, errors.New("query cannot be read")
	}
	name = values.Get("name")
	values.Del("name")
	files.cut(values)
	if len(values) == 0 {
		return path, name, files, nil
	}
	return path + "?" + values.Encode(), name, files, nil
}

// openMaster makes a node of cut, which is rawURL without the parameters of cutOwn.
func openMaster(rawURL, cut string, cfg Config) (*redisNode, error) {
	bad := func(what string) error {
		return fmt.Errorf("node: bad URL %q: %s (want redis://host:port, rediss://, redis-sentinel:// or redis-cluster://)", redact.URL(rawURL), what)
	}
	opts, err := redis.ParseURL(noPort.ReplaceAllString(cut, "$1:6379$2"))
	if err == nil && opts.Network == "tcp" {
		// go-redis takes no host for localhost: another server for each host of the program, under one name.
		if u, err := url.Parse(cut); err == nil && u.Hostname() == "" {
			return nil, bad(errNoHost.Error())
		}
		err = checkPort(opts.Addr)
	}
	if err != nil {
		return nil, bad(reason(rawURL, err))
	}
	return open(*opts, cfg, nil)
}

// noPort matches the URL of an IPv6 address without a port, which go-redis 9.17 would put into brackets once more.
var noPort = regexp.MustCompile(`^(rediss?://[^/?]*\])([/?]|$)`)

// hostsURL is a URL with a list of hosts, which net/url refuses.
type hostsURL struct {
	username, password string
	addrs              []string
	path               string // without the first /
	query              url.Values
	tls                *tls.Config // nil for none
}

// parseHosts parses rest, which is what follows :// in such a URL. If rest is wrong, what
// says how.
func parseHosts(rawURL, rest, defaultPort string) (u hostsURL, what string) {
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at], authority[at+1:]
	}
	u.path = path
	var err error
	if u.query, err = url.ParseQuery(query); err != nil {
		return u, "query cannot be read"
	}
	username, password, _ := strings.Cut(user, ":")
	if u.username, err = url.PathUnescape(username); err != nil {
		return u, "user name cannot be read"
	}
	if u.password, err = url.PathUnescape(password); err != nil {
		return u, "password cannot be read"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := withPort(host, defaultPort)
		if err != nil {
			return u, err.Error()
		}
		u.addrs = append(u.addrs, addr)
	}
	if strings.HasPrefix(rawURL, "rediss-") {
		u.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return u, ""
}

func openSentinel(rawURL, rest string, cfg Config, files tlsFiles) (*redisNode, error) {
	bad := func(what string) error {
		return fmt.Errorf("node: bad URL %q: %s (want redis-sentinel://host:port,host:port/master-name)", redact.URL(rawURL), what)
	}
	u, what := parseHosts(rawURL, rest, "26379")
	name, db, _ := strings.Cut(u.path, "/")
	name, err := url.PathUnescape(name)
	if err != nil || name == "" {
		return nil, bad("no master name")
	}
	if what == "" {
		what = unknownParams(u.query, "sentinel_username", "sentinel_password")
	}
	if what != "" {
		return nil, bad(what)
	}
	master := redis.Options{Addr: failoverAddr, TLSConfig: u.tls, Username: u.username, Password: u.password}
	if db != "" {
		if master.DB, err = strconv.Atoi(db); err != nil || master.DB < 0 {
			return nil, bad("database is no number")
		}
	}
	limit := cfg.withDefaults().DialTimeout
	s := &sentinels{name: name, addrs: u.addrs, dial: files.dial(u.tls, limit)}
	s.ask = laneOptions(redis.Options{Username: u.query.Get("sentinel_username"), Password: u.query.Get("sentinel_password")},
		Config{DialTimeout: limit, IOTimeout: limit})
	master.Dialer = s.connect
	r, err := open(master, cfg, nil)
	if err != nil {
		return nil, err
	}
	r.name, r.guards = withDatabase("sentinel:"+name, master.DB), s
	return r, nil
}

func openCluster(rawURL, rest string, cfg Config) (*redisNode, error) {
	bad := func(what string) error {
		return fmt.Errorf("node: bad URL %q: %s (want redis-cluster://host:port,host:port/?tag=locks)", redact.URL(rawURL), what)
	}
	u, what := parseHosts(rawURL, rest, "6379")
	if what == "" {
		what = unknownParams(u.query, "tag")
	}
	switch {
	case what != "":
		return nil, bad(what)
	case u.path != "" && u.path != "0":
		return nil, bad("a cluster has no databases but 0")
	}
	cfg.Tag = u.query.Get("tag")
	if err := locate.CheckTag(cfg.Tag); err != nil {
		return nil, bad(err.Error())
	}
	return open(redis.Options{Username: u.username, Password: u.password, TLSConfig: u.tls}, cfg, u.addrs)
}

// unknownParams returns an error text for the first query parameter that is not known, or
// "". It quotes the name only if that cannot be part of a password.
func unknownParams(query url.Values, known ...string) string {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(known, name):
		case redact.Param(name):
			return fmt.Sprintf("unknown query parameter %q: want %s or name, or with TLS cert, key, ca or server_name", name, strings.Join(known, ", "))
		default:
			return "a query parameter cannot be read"
		}
	}
	return ""
}

var errNoHost = errors.New("an empty host")

// withPort returns host with its own port, or with the default port if it has none.
func withPort(host, port string) (string, error) {
	if strings.ContainsFunc(host, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		return "", errors.New("a host with white space or a control character: write none behind a comma")
	}
	h, own, err := net.SplitHostPort(host)
	if err != nil {
		h, own = strings.Trim(host, "[]"), port
	}
	if h == "" {
		return "", errNoHost
	}
	addr := net.JoinHostPort(h, own)
	return addr, checkPort(addr)
}

// checkPort returns an error if addr has no valid port. The error does not quote the port,
// which may be part of a password.
func checkPort(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return errors.New("the port is no number from 1 to 65535")
	}
	return nil
}

// behindHost matches a URL with an at sign behind what should be the host: that may be the password.
var behindHost = regexp.MustCompile(`(?s)://[^/?]*[/?].*@`)

// badParam matches what go-redis says of a parameter, or of the database in the path.
var badParam = regexp.MustCompile(`^redis: (?:unexpected option: ([a-z_]+)|invalid ([a-z_]+) (number|duration|boolean):)`)

// ofParam is the text of an error of go-redis about one parameter, without its value, or "".
func ofParam(err error) string {
	switch m := badParam.FindStringSubmatch(err.Error()); {
	case m == nil || !redact.Param(m[1]+m[2]):
		return ""
	case m[1] != "":
		return fmt.Sprintf("unknown query parameter %q", m[1])
	default:
		return fmt.Sprintf("%s: want a %s", m[2], m[3])
	}
}

// reason returns the text of err if that cannot contain a password. net/url and go-redis
// quote the part of the URL that they cannot parse. If a password contains an unencoded
// / or ?, or a program splits a list at a comma in it, that part may be a piece of the password.
func reason(rawURL string, err error) string {
	place, _, _ := strings.Cut(rawURL, "?")
	what := ofParam(err)
	switch u, ok := err.(*url.Error); {
	case what != "" && !behindHost.MatchString(rawURL) && !strings.Contains(rawURL, "password="):
		return what
	case strings.Contains(rawURL, "@"):
		return "it cannot be read; are the special characters in user and password percent-encoded?"
	case redact.URL(place) == place && redact.URL(rawURL) != rawURL:
		return "user and password stand before the host, with a colon between them and an at sign behind"
	case redact.URL(rawURL) != rawURL:
		return "the port is no number from 1 to 65535; if a comma in a password ended the URL, write %2C for it"
	case ok:
		return u.Err.Error()
	}
	return err.Error()
}
