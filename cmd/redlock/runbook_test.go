// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// runbookTTL is the maximum TTL of the masters on which runbooks are run, and runbookHeld the margin of those under which a lock is held: a lease must
// live through the pauses of the machine, and what a runbook waits for grows with it.
const runbookTTL, runbookHeld = 2500 * time.Millisecond, 500 * time.Millisecond

// runbook is a section of docs/operations.md, and the masters that its commands are run on. The page calls them
// 127.0.0.1:27001 and so on.
type runbook struct {
	t       testing.TB
	servers []*localredis.Server
	lists   map[string]string // URLS, OLD_URLS, NEW_URLS
}

// page is the text of the section with that heading.
func runbookPage(t testing.TB, heading string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "\n### "+heading+"\n")
	if !found {
		t.Fatalf("no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	return section
}

var consoles = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```$")

// step is a line of a console that begins with $, a command, or with #, what somebody does, and what is printed after it.
type step struct{ line, prints string }

func steps(section string) (steps []step) {
	for _, block := range consoles.FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# ") {
				steps = append(steps, step{line: line})
			} else if n := len(steps); n > 0 {
				steps[n-1].prints += line + "\n"
			}
		}
	}
	return steps
}

var (
	lasting = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s)\b`)
	flagTTL = regexp.MustCompile(` --max-ttl [0-9a-z.]+`)
	by      = regexp.MustCompile(`\(by \S+`)
	seen    = regexp.MustCompile(`\b(redis|valkey) [\d.]+|[+-]\d+\.\d+ ±\d+\.\d+ ms`) // by doctor
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// plain hides what differs between the page and a run: line breaks, times, ids, processes, and the addresses.
func (r *runbook) plain(said string) string {
	said = strings.Join(strings.Fields(said), " ")
	said = address.ReplaceAllStringFunc(said, func(addr string) string {
		if i := slices.IndexFunc(r.servers, func(s *localredis.Server) bool { return s.Addr() == addr }); i >= 0 {
			return fmt.Sprint("127.0.0.1:", 27001+i)
		}
		return addr
	})
	said = seen.ReplaceAllString(said, "SEEN")
	said = by.ReplaceAllString(flagTTL.ReplaceAllString(said, ""), "(by SOMEBODY")
	return lasting.ReplaceAllString(ids.ReplaceAllStringFunc(said, func(id string) string {
		if strings.HasPrefix(id, "127.") || strings.HasSuffix(id, "s") {
			return id
		}
		return "ID"
	}), "TIME")
}

// readOnly are the commands that may be called again.
var readOnly = map[string]bool{"status": true, "inspect": true, "doctor": true}

// run runs the section's commands as they stand there, and acts where it says what somebody does. Whatever the page says
// is printed must be what is printed.
func (r *runbook) run(heading string, acts map[string]func() string) {
	r.t.Helper()
	for _, s := range steps(runbookPage(r.t, heading)) {
		said := ""
		switch words := strings.Fields(s.line)[1:]; {
		case s.line[0] == '#':
			act, ok := acts[strings.TrimPrefix(s.line, "# ")]
			if !ok {
				r.t.Fatalf("nobody does %q", s.line)
			}
			said = act()
			delete(acts, strings.TrimPrefix(s.line, "# "))
		case words[0] == "redis-cli":
			said = r.redisCLI(words[1:])
		default:
			said = r.redlock(words[1:])
			for again := 0; again < 10 && readOnly[words[1]] && r.plain(said) != r.plain(s.prints); again++ {
				said = r.redlock(words[1:]) // a busy machine may be too slow for the time that such a command gives its masters
			}
		}
		if got, want := r.plain(said), r.plain(s.prints); got != want {
			r.t.Errorf("%s\nprints %s\n  page %s\n%s", s.line, got, want, said)
		}
	}
	for act := range acts {
		r.t.Errorf("the page does not say %q", act)
	}
}

// redlock runs a command of ours with the flag that makes the masters of the test quick.
func (r *runbook) redlock(words []string) string {
	for i, w := range words {
		if list, ok := r.lists[w]; ok {
			words[i] = list
		}
	}
	code, stdout, stderr := cli(r.t, append(words, "--max-ttl", runbookTTL.String())...)
	switch code {
	case exitOK:
		return stdout
	case exitMasters: // the reason is an error
		return stdout + stderr + fmt.Sprintf("(exit code %d)", code)
	}
	return stdout + fmt.Sprintf("(exit code %d)", code)
}

// redisCLI sends the command to the server with that port on the page: redis-cli -p 27001 ...
func (r *runbook) redisCLI(words []string) string {
	var i int
	if _, err := fmt.Sscanf(words[1], "270%d", &i); err != nil || words[0] != "-p" {
		r.t.Fatalf("%q: %v", words, err)
	}
	args := make([]any, 0, len(words))
	for _, w := range words[2:] {
		args = append(args, strings.Trim(w, "'"))
	}
	reply, err := direct(r.t, r.servers[i-1].URL()).Do(r.t.Context(), args...).Result()
	must(r.t, err)
	return fmt.Sprint(reply)
}

// runbookOn starts total masters, of which the first n vote.
func runbookOn(t testing.TB, n, total int) *runbook {
	t.Helper()
	return runbookWith(t, n, startMasters(t, total))
}

func runbookWith(t testing.TB, n int, servers []*localredis.Server) *runbook {
	t.Helper()
	r := &runbook{t: t, servers: servers, lists: make(map[string]string)}
	slices.SortFunc(r.servers, func(a, b *localredis.Server) int { return strings.Compare(a.Addr(), b.Addr()) }) // as commands print them
	r.lists["URLS"] = r.urls(1, n)
	expectCode(t, exitOK, "init", never, "--max-ttl", runbookTTL.String(), "--nodes", r.lists["URLS"])
	r.lists["OLD_URLS"] = r.lists["URLS"]
	return r
}

// urls are those of the servers from first to last.
func (r *runbook) urls(first, last int) string {
	var urls []string
	for _, s := range r.servers[first-1 : last] {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// program opens a program with that list, which holds the lock of the name.
func (r *runbook) program(list, name string, opts ...redlock.Option) *redlock.Lease {
	r.t.Helper()
	opts = append(opts, redlock.WithMaxTTL(runbookTTL), redlock.WithTTL(runbookTTL), redlock.WithNodeTimeout(500*time.Millisecond))
	return take(r.t, openClient(r.t, list, opts...), name)
}

// lives fails if the lease was lost.
func lives(t testing.TB, lease *redlock.Lease) {
	t.Helper()
	err := lease.Extend(t.Context())
	for ; errors.Is(err, redlock.ErrUnreachable) && lease.Err() == nil; err = lease.Extend(t.Context()) {
		pause(t.Context()) // one round was late
	}
	if err != nil {
		t.Errorf("the lock was lost: %v", err)
	}
}

func (r *runbook) kill(of ...int) func() string {
	return func() string {
		for _, i := range of {
			must(r.t, r.servers[i-1].Kill())
		}
		return ""
	}
}

func (r *runbook) restart(of ...int) func() string {
	return func() string {
		for _, i := range of {
			if r.servers[i-1].PID() != 0 {
				must(r.t, r.servers[i-1].Kill())
			}
			must(r.t, r.servers[i-1].Restart(r.t.Context()))
		}
		return ""
	}
}

func nothing() string { return "" }

func TestRunbook_twoOfFiveGoneForGood_noLockWithTwoHolders(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	r := runbookOn(t, 5, 7)
	lease := r.program(r.lists["URLS"], "held")
	r.lists["NEW_URLS"] = r.urls(1, 3) + "," + r.urls(6, 7)
	r.run("Two of five are gone for good", map[string]func() string{
		"the hosts of 27004 and 27005 burn":                  r.kill(4, 5),
		"start empty servers at 27006 and 27007":             nothing,
		"the old servers come back by mistake, with no data": r.restart(4, 5),
		"stop the old servers":                               r.kill(4, 5),
	})
	r.program(r.lists["NEW_URLS"], "held")
	if lease.Context().Err() == nil {
		t.Error("two holders")
	}
}

func TestRunbook_moveElsewhere(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	r := runbookOn(t, 3, 6)
	lease := r.program(r.lists["URLS"], "held")
	r.lists["NEW_URLS"] = r.urls(4, 6)
	r.run("Move everything elsewhere", map[string]func() string{
		"start empty servers at 27004, 27005 and 27006": nothing,
		"start all programs and timers with NEW_URLS":   nothing,
		"stop the servers at 27001, 27002 and 27003":    r.kill(1, 2, 3),
	})
	r.program(r.lists["NEW_URLS"], "held")
	if lease.Context().Err() == nil {
		t.Error("two holders")
	}
}

// Maxmemory stands in for the disk: the server refuses the same commands with another word, which TestOf_eachCause has.
func TestRunbook_full_noLockIsLost(t *testing.T) {
	t.Parallel()
	stall.Try(t, runbookHeld, func(t testing.TB) {
		r := runbookOn(t, 3, 3)
		lease := r.program(r.lists["URLS"], "held")
		r.run("A disk or a memory is full", map[string]func() string{
			"27003 is full": func() string {
				must(t, direct(t, r.servers[2].URL()).ConfigSet(t.Context(), "maxmemory", "1").Err())
				return ""
			},
		})
		lives(t, lease)
	})
}

func TestRunbook_zoneIsLost(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, runbookHeld, func(t testing.TB) {
		r := runbookOn(t, 5, 5)
		lease := r.program(r.lists["URLS"], "held")
		r.run("A zone is lost", map[string]func() string{
			"the zone of 27001 and 27002 is gone":            r.kill(1, 2),
			"the zone is back, and its servers have no data": r.restart(1, 2),
		})
		lives(t, lease)
	})
}

func TestRunbook_openHangs(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	r := runbookOn(t, 3, 3)
	var log syncBuffer
	opened := make(chan *redlock.Client, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r.run("Open hangs", map[string]func() string{
		"the network swallows what is sent to 27002 and 27003, and a program starts": func() string {
			for _, s := range r.servers[1:] {
				must(t, s.Pause())
			}
			go func() {
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				}}))
				c, err := redlock.Open(ctx, strings.Split(r.lists["URLS"], ","), redlock.WithMaxTTL(runbookTTL), redlock.WithTTL(runbookTTL), redlock.WithLogger(logger))
				if err != nil {
					t.Error(err)
				}
				opened <- c
			}()
			line := ""
			eventually(t, "a line of the log", func() bool {
				line = regexp.MustCompile(`.*opening waits.*\n`).FindString(log.String())
				return line != ""
			})
			return line
		},
		"the network is mended": func() string {
			for _, s := range r.servers[1:] {
				must(t, s.Resume())
			}
			return ""
		},
		"the program goes on, and takes a lock": func() string {
			c := <-opened
			if c == nil {
				t.FailNow()
			}
			defer c.Close()
			lease, err := c.Mutex("x").Lock(ctx)
			must(t, err)
			must(t, lease.Unlock(ctx))
			return ""
		},
	})
}

func TestRunbook_slowLocks(t *testing.T) {
	t.Parallel()
	stall.Try(t, runbookHeld, slowLocks)
}

func slowLocks(t testing.TB) {
	r := runbookOn(t, 3, 3)
	r.run("Locks are slow", map[string]func() string{
		"billing/pod-7 holds orders/1, and other/1 waits for it": func() string {
			lease := r.program(r.lists["URLS"], "orders/1", redlock.WithClientName("billing/pod-7"))
			waiter := openClient(t, r.lists["URLS"], redlock.WithMaxTTL(runbookTTL), redlock.WithTTL(runbookTTL), redlock.WithClientName("other/1"))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = waiter.Mutex("orders/1").Lock(ctx)
			}()
			t.Cleanup(func() { cancel(); <-ended })
			eventually(t, "it waits", func() bool {
				i, err := waiter.Inspect(t.Context(), "orders/1")
				return err == nil && len(i.Waiters) == 1 && i.Waiters[0].Owner == "other/1" && lease.Context().Err() == nil
			})
			return ""
		},
	})
}
