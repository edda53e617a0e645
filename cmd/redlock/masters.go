// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// The environment variables that name the masters.
const (
	nodesVar     = "REDLOCK_NODES"
	nodesFileVar = "REDLOCK_NODES_FILE"
	clusterVar   = "REDLOCK_CLUSTER"
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// The library takes times from minTime to maxTime.
const (
	minTime = 10 * time.Millisecond
	maxTime = 365 * 24 * time.Hour
)

// drift is a flag like 0.01+2ms.
type drift clock.Drift

func (d *drift) String() string {
	return strconv.FormatFloat(d.Factor, 'g', -1, 64) + "+" + d.Constant.String()
}

// Type implements pflag.Value.
func (d *drift) Type() string { return "DRIFT" }

// Set implements pflag.Value.
func (d *drift) Set(s string) error {
	factor, constant, ok := strings.Cut(s, "+")
	f, err1 := strconv.ParseFloat(factor, 64)
	c, err2 := time.ParseDuration(constant)
	if !ok || err1 != nil || err2 != nil {
		return errors.New("want a share of the time and a time, as 0.01+2ms")
	}
	d.Factor, d.Constant = f, c
	return nil
}

// count is a flag for how many masters there are. 0: it is not given.
type count int

func (c *count) String() string {
	if *c == 0 {
		return ""
	}
	return strconv.Itoa(int(*c))
}

// Type implements pflag.Value.
func (c *count) Type() string { return "N" }

// Set implements pflag.Value.
func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("want a number, 1 or more")
	}
	*c = count(n)
	return nil
}

// nonEmpty is a flag that is not empty if it is given. --nodes-file "$NEW" with an unset variable would mean the list of the environment.
type nonEmpty string

func (w *nonEmpty) String() string { return string(*w) }

// Type implements pflag.Value.
func (w *nonEmpty) Type() string { return "WORD" }

// Set implements pflag.Value.
func (w *nonEmpty) Set(s string) error {
	if s == "" {
		return errors.New("it is empty: give a value, or leave the flag out")
	}
	*w = nonEmpty(s)
	return nil
}

// masters is a list of masters as its clients have it.
type masters struct {
	flag      string // of the URLs, for errors
	prefix    string // of the other flags
	nodes     masterurl.URLs
	file      string
	maxTTL    time.Duration
	drift     drift
	fixed     bool
	count     int    // as WithNodeCount of the clients; 0: not given, an odd number of 3 or more
	anyCount  bool   // the command itself says what is wrong with their number
	namespace string // empty: none
	tls       tlsFlags
	cluster   string // whole Redis Cluster of which nodes are the votes; empty: none
}

// define declares the flags. name is the flag of the URLs, prefix begins the names of the others, and what says which masters they are.
func (m *masters) define(fs *pflag.FlagSet, name, prefix, what string) {
	m.flag, m.prefix, m.drift = name, prefix, drift(clock.DefaultDrift())
	fs.Var(&m.nodes, name, what)
	fs.Var((*nonEmpty)(&m.cluster), prefix+"cluster", "`URL` of a whole Redis Cluster in place of --"+name+", if its clients have OpenCluster")
	fs.DurationVar(&m.maxTTL, prefix+"max-ttl", redlock.DefaultMaxTTL, "`TIME` that its clients have as maximum TTL")
	fs.Var(&m.drift, prefix+"drift", "`DRIFT` of its clients")
	fs.Var((*count)(&m.count), prefix+"node-count", "`N` masters, if its clients have WithNodeCount: one, two or four (default: any odd number of 3 or more)")
	if prefix == "" { // a change stays within its namespace
		fs.Var((*nonEmpty)(&m.namespace), "namespace", "`NAME` of the namespace of its clients (default none)")
		m.tls.define(fs)
	}
}

// defineFile declares the flag of a file that has the URLs.
func (m *masters) defineFile(fs *pflag.FlagSet) {
	fs.Var((*nonEmpty)(&m.file), m.prefix+"nodes-file", "`FILE` that has the URLs of all the masters, one a line")
}

func (m *masters) defineFixed(fs *pflag.FlagSet) {
	fs.BoolVar(&m.fixed, "fixed", false, "the clients of this list have WithFixedMasters")
}

// check finds the URLs, and says what is wrong with them and with the other flags.
func (m *masters) check() error {
	where, err := m.find()
	if err != nil {
		return err
	}
	if err := m.tls.check(m.nodes); err != nil {
		return err
	}
	return m.verify(where)
}

// verify says what is wrong with the URLs and with the other flags. where is of find.
func (m *masters) verify(where func(i int) string) error {
	var err error
	if m.nodes, err = m.tls.apply(m.nodes); err != nil {
		return err
	}
	for i, url := range m.nodes {
		n, err := node.Open(url, node.Config{}) // for its errors, which never show a password
		if err != nil {
			return fmt.Errorf("%s: %w", where(i), err)
		}
		_ = n.Close()
	}
	switch n := len(m.nodes); {
	case m.count != 0 && m.count != n:
		return fmt.Errorf("--%snode-count %d, and %d masters are named: name all of them", m.prefix, m.count, n)
	case m.count == 0 && !m.anyCount && (n < 3 || n%2 == 0):
		return fmt.Errorf("%d masters, and programs refuse such a list: name an odd number of 3 or more; --%snode-count %d takes it, if that is what every program has",
			n, m.prefix, n)
	}
	if m.maxTTL < minTime || m.maxTTL > maxTime {
		return fmt.Errorf("--%smax-ttl %v: want %v to %v", m.prefix, m.maxTTL, minTime, maxTime)
	}
	_, err = inside.Settings(append(m.list().Options, redlock.WithTTL(m.maxTTL))) // what no client takes, whatever its TTL is
	return m.byFlag(err, fmt.Sprintf("%sdrift %v", m.prefix, &m.drift), m.prefix+"max-ttl")
}

// byFlag is err of the library's settings, in words of flags: of the one with that name and value, unless the text says which. ttl is the flag of
// what the library calls TTL.
func (m *masters) byFlag(err error, flag, ttl string) error {
	if err == nil {
		return nil
	}
	text := strings.NewReplacer("WithTTL", "--"+ttl, "WithMaxTTL", "--"+m.prefix+"max-ttl", "WithDrift", "--"+m.prefix+"drift").Replace(strings.TrimPrefix(plain(err), "bad configuration: "))
	for setting, its := range map[string]string{"client name ": "--owner ", "namespace ": "--namespace "} {
		if rest, ok := strings.CutPrefix(text, setting); ok {
			return errors.New(its + rest)
		}
	}
	return fmt.Errorf("--%s: %s", flag, text)
}

// find fills in the URLs from where they are. where says of one of them where that is, for errors.
func (m *masters) find() (where func(i int) string, err error) {
	flag := "--" + m.flag
	given := 0
	for _, is := range []bool{len(m.nodes) > 0, m.file != "", m.cluster != ""} {
		if is {
			given++
		}
	}
	switch list, file, cluster := os.Getenv(nodesVar), os.Getenv(nodesFileVar), os.Getenv(clusterVar); {
	case given > 1 && m.cluster == "":
		return nil, fmt.Errorf("%s and --nodes-file both name the masters: give one of them", flag)
	case given > 1:
		if len(m.nodes) == 0 {
			flag = "--nodes-file"
		}
		return nil, fmt.Errorf("--cluster and %s both name the masters: give one of them", flag)
	case len(m.nodes) > 0:
		return at(flag), nil
	case m.file != "":
		return m.read("--nodes-file", m.file)
	case m.cluster != "":
		return at("--cluster"), m.expand("--cluster")
	case strings.TrimSpace(list) != "":
		return at(nodesVar), m.nodes.Set(list)
	case file != "":
		return m.read(nodesFileVar, file)
	case cluster != "":
		m.cluster = cluster
		return at(clusterVar), m.expand(clusterVar)
	}
	return nil, fmt.Errorf("no masters are named: give %s URL,URL,... or --nodes-file FILE, or set %s or %s, with all the masters as every program names them; "+
		"for a whole Redis Cluster --cluster URL or %s", flag, nodesVar, nodesFileVar, clusterVar)
}

// expand fills in the URLs of the votes of the cluster, which flag names.
func (m *masters) expand(flag string) error {
	applied, err := m.tls.apply([]string{m.cluster})
	if err != nil {
		return err
	}
	m.cluster = applied[0]
	urls, err := redlock.ClusterURLs(m.cluster, redlock.WithNodeCount(m.count))
	if err != nil {
		return fmt.Errorf("%s: %s", flag, plain(err))
	}
	m.nodes = urls
	return nil
}

// client opens a client as programs do that lock on these masters.
func (m *masters) client(ctx context.Context, more ...redlock.Option) (*redlock.Client, error) {
	list := m.list()
	opts := append(list.Options, more...)
	if m.cluster != "" {
		return redlock.OpenCluster(ctx, m.cluster, opts...)
	}
	return redlock.Open(ctx, list.URLs, opts...)
}

// at is for find, when all URLs are at the same place.
func at(name string) func(int) string { return func(int) string { return name } }

// read fills in the URLs from a file that flag names.
func (m *masters) read(flag, file string) (where func(i int) string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	var lines []int
	for i, line := range strings.Split(strings.TrimPrefix(string(content), "\ufeff"), "\n") { // without the mark that editors of Windows begin it with
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			m.nodes, lines = append(m.nodes, line), append(lines, i+1)
		}
	}
	if len(m.nodes) == 0 {
		return nil, fmt.Errorf("%s: %s names no master: it has one URL a line", flag, file)
	}
	return func(i int) string { return fmt.Sprintf("%s:%d", file, lines[i]) }, nil
}

func (m *masters) list() admin.List {
	// The default TTL must fit below a smaller maximum; none is taken.
	opts := []redlock.Option{redlock.WithNodeCount(m.count), redlock.WithMaxTTL(m.maxTTL),
		redlock.WithTTL(min(m.maxTTL, redlock.DefaultTTL)), redlock.WithDrift(clock.Drift(m.drift))}
	if m.fixed {
		opts = append(opts, redlock.WithFixedMasters())
	}
	if m.namespace != "" {
		opts = append(opts, redlock.WithNamespace(m.namespace))
	}
	return admin.List{URLs: m.nodes, Options: opts}
}
