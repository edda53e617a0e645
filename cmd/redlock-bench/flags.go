// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

const (
	maxMasters = 15   // of our own, each a process
	maxCount   = 4096 // callers, waiters
	minTime    = 10 * time.Millisecond
	maxNodes   = 63               // as a client takes
	maxTTL     = 8760 * time.Hour // as a client takes
)

// counts is a flag of one or more numbers, as in --callers 1,16,64. Each makes a cell.
type counts []int

func (c *counts) String() string {
	s := make([]string, len(*c))
	for i, n := range *c {
		s[i] = strconv.Itoa(n)
	}
	return strings.Join(s, ",")
}

// Set implements [flag.Value].
func (c *counts) Set(s string) error {
	*c = nil
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > maxCount {
			return fmt.Errorf("%q: want numbers from 1 to %d with commas between, such as 1,16,64", word, maxCount)
		}
		*c = append(*c, n)
	}
	return nil
}

// checkURLs returns what is wrong with the masters of --nodes.
func checkURLs(urls []string) error {
	for _, url := range urls {
		if strings.Contains(url, "-sentinel://") {
			return errors.New("--nodes: sentinels stand between us and the master: name the master itself, as redis://host:port")
		}
		n, err := node.Open(url, node.Config{}) // for its errors, which never show a password
		if err != nil {
			return fmt.Errorf("--nodes: %w", err)
		}
		_ = n.Close()
	}
	return nil
}

// setup is the flags that all measurements share: on which masters, for how long, to where.
type setup struct {
	nodes    masterurl.URLs
	init     bool
	masters  int
	ttl      time.Duration
	listTTL  time.Duration // the maximum TTL of --nodes; 0: the default, or --ttl if that is longer
	duration time.Duration
	json     string
	html     string
	server   localredis.Config      // of our own
	given    func(name string) bool // whether the command line has that flag
	flags    *flag.FlagSet
}

func (s *setup) define(fs *flag.FlagSet, duration time.Duration) {
	fs.Var(&s.nodes, "nodes", "`URL,URL,...` of your masters, instead of our own")
	fs.BoolVar(&s.init, "init", false, "nothing was ever locked on --nodes: they vote at once")
	fs.DurationVar(&s.listTTL, "max-ttl", 0, "`TIME` of the maximum TTL of --nodes (default 30s)")
	s.defineOwn(fs, duration)
}

// defineOwn leaves out the flags that name masters of the user's.
func (s *setup) defineOwn(fs *flag.FlagSet, duration time.Duration) {
	fs.IntVar(&s.masters, "masters", 5, "`N` masters of our own, each a redis-server")
	fs.DurationVar(&s.ttl, "ttl", redlock.DefaultTTL, "`TIME` that a lock is taken for")
	fs.DurationVar(&s.duration, "duration", duration, "`TIME` to measure each cell for")
	fs.StringVar(&s.json, "json", "", "`FILE` for the results, - is standard output")
	fs.StringVar(&s.html, "html", "", "`FILE` for a page about them, to open in a browser")
	s.flags = fs
	s.given = func(name string) (yes bool) {
		fs.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
		return yes
	}
}

func (s *setup) check() error {
	switch {
	case len(s.nodes) > 0 && s.given("masters"):
		return errors.New("--masters is how many of our own to start, and --nodes names yours: give one of them")
	case s.init && len(s.nodes) == 0:
		return errors.New("--init is for the masters of --nodes; our own are new and begin at once")
	case s.listTTL != 0 && len(s.nodes) == 0:
		return errors.New("--max-ttl is for the masters of --nodes; our own have one that fits --ttl")
	case len(s.nodes) > 0 && s.given("max-ttl") && (s.listTTL < minTime || s.listTTL > maxTTL):
		return fmt.Errorf("--max-ttl %v: want %v to %v", s.listTTL, minTime, maxTTL)
	case s.listTTL != 0 && s.given("ttl") && s.ttl > s.listTTL:
		return fmt.Errorf("--ttl %v: want the --max-ttl of these masters, %v, or less", s.ttl, s.listTTL)
	case s.html == "-":
		return errors.New("--html: want a file; only --json goes to standard output")
	case s.masters < 1 || s.masters > maxMasters:
		return fmt.Errorf("--masters %d: want 1 to %d", s.masters, maxMasters)
	case s.ttl < minTime:
		return fmt.Errorf("--ttl %v: want %v or more", s.ttl, minTime)
	case s.ttl > maxTTL:
		return fmt.Errorf("--ttl %v: want %v or less", s.ttl, maxTTL)
	case len(s.nodes) > maxNodes:
		return fmt.Errorf("--nodes: %d masters: want %d or fewer", len(s.nodes), maxNodes)
	case s.duration < minTime:
		return fmt.Errorf("--duration %v: want %v or more", s.duration, minTime)
	}
	if slices.ContainsFunc(s.nodes, masterurl.IsCluster) {
		return errors.New("--nodes: a slot of a Redis Cluster takes locks that are named after it, as ours are not: measure on plain masters")
	}
	if s.listTTL != 0 {
		s.ttl = min(s.ttl, s.listTTL)
	}
	return checkURLs(s.nodes)
}

// options are those of every client that is measured. The number of masters is whatever the user asked for, knowingly.
func (s *setup) options(n int) []redlock.Option {
	most := cmp.Or(s.listTTL, max(s.ttl, redlock.DefaultMaxTTL))
	return []redlock.Option{redlock.WithTTL(s.ttl), redlock.WithMaxTTL(most), redlock.WithNodeCount(n)}
}

// commandLine is what measures the same again. Where results go is left out, and so are URLs of masters, which may have passwords.
func (s *setup) commandLine(name string) string {
	line := "redlock-bench " + name
	if s.flags == nil {
		return line
	}
	s.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "json", "html":
		case "nodes":
			line += " --nodes URL,..."
		default:
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				line += fmt.Sprintf(" --%s=%s", f.Name, f.Value)
			} else {
				line += fmt.Sprintf(" --%s %s", f.Name, f.Value)
			}
		}
	})
	return line
}

// open connects to the masters that s names, or starts some. The caller closes what it returns; on an error nothing is left behind.
func (s *setup) open(ctx context.Context) (*masters.Backend, error) {
	if len(s.nodes) > 0 {
		return masters.OpenGiven(ctx, s.nodes, s.init)
	}
	_, version, err := localredis.Find()
	if errors.Is(err, localredis.ErrNoServer) {
		return masters.OpenEmbedded(s.masters), nil
	}
	if err != nil {
		return nil, err
	}
	return masters.OpenOwn(ctx, s.masters, s.server, version)
}
