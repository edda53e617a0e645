// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// rightsOfTheDocs are the words of the list in docs/operations.md.
func rightsOfTheDocs(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n### Rights\n")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```")
	block, _, _ = strings.Cut(block, "(or narrower")
	return strings.Fields(block)
}

// wantRights compares the rights of the user locker in an ACL file with those that the code says a user needs.
func wantRights(t *testing.T, acl string) {
	t.Helper()
	_, locker, _ := strings.Cut(acl, "user locker on ")
	locker, _, _ = strings.Cut(locker, "\n")
	_, words, _ := strings.Cut(locker, " ") // behind the password
	got := slices.DeleteFunc(strings.Fields(words), func(w string) bool { return w == "resetchannels" || w == "-@all" })
	want := protocol.Namespace("").ACL()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("locker has\n%v\nand needs\n%v", got, want)
	}
}

// A user with the rights of the docs and no others, in another database than 0: each kind of lock and each command.
func TestACL_listOfTheDocs_everyCommand(t *testing.T) {
	needs.EveryServer(t)
	needs.NoRace(t, aProgramEach)
	t.Parallel()
	rights := rightsOfTheDocs(t)
	told, real := slices.Sorted(slices.Values(rights)), slices.Sorted(slices.Values(protocol.Namespace("").ACL()))
	if !slices.Equal(told, real) {
		t.Errorf("the docs say\n%v\nand the code\n%v", told, real)
	}
	var urls []string
	for _, s := range startMasters(t, 3) {
		args := []any{"acl", "setuser", "locker", "reset", "resetchannels", "on", ">pw"}
		for _, r := range rights {
			args = append(args, r)
		}
		root := direct(t, s.URL())
		must(t, root.Do(t.Context(), args...).Err())
		must(t, root.Set(t.Context(), "another", "program", 0).Err()) // in database 0, at which init looks
		urls = append(urls, "redis://locker:pw@"+s.Addr()+"/1")
	}
	list := strings.Join(urls, ",")
	everyCommand(t, openOn(urls...), []string{"--from", list}, asProgram(t, []string{"REDLOCK_NODES=" + list}, "--max-ttl", tlsTTL))
	eachKind(t, urls)
	for _, u := range urls {
		root := direct(t, strings.Replace(u, "locker:pw@", "", 1))
		log, err := root.Do(t.Context(), "acl", "log").Slice()
		must(t, err)
		for _, entry := range log {
			if said := fmt.Sprint(entry); strings.Contains(said, "locker") && !strings.Contains(said, "config") { // doctor shows "unknown" without it
				t.Errorf("refused: %s", said)
			}
		}
	}
}

// eachKind takes, waits for and gives back each kind of lock, after the change of everyCommand.
func eachKind(t *testing.T, urls []string) {
	t.Helper()
	maxTTL, err := time.ParseDuration(tlsTTLAfter)
	must(t, err)
	var clients []*redlock.Client
	for range 2 {
		c, err := redlock.Open(t.Context(), urls, redlock.WithMaxTTL(maxTTL), redlock.WithTTL(maxTTL), redlock.WithNodeTimeout(time.Second), redlock.WithOutageTimeout(outage))
		must(t, err)
		defer c.Close()
		clients = append(clients, c)
	}
	ctx := t.Context()
	for name, of := range map[string]func(c *redlock.Client) redlock.Locker{
		"plain":  func(c *redlock.Client) redlock.Locker { return c.Mutex("plain") },
		"writer": func(c *redlock.Client) redlock.Locker { return c.RWMutex("rw").Locker() },
		"reader": func(c *redlock.Client) redlock.Locker { return c.RWMutex("rw").RLocker() },
	} {
		first, err := of(clients[0]).Lock(ctx)
		must(t, err)
		must(t, first.Extend(ctx))
		second := make(chan error, 1)
		go func() { // it waits, or reads beside
			lease, err := of(clients[1]).Lock(ctx)
			if err == nil {
				err = lease.Unlock(ctx)
			}
			second <- err
		}()
		if name != "reader" {
			eventually(t, "it waits", func() bool {
				in, err := clients[0].Inspect(ctx, of(clients[0]).Name())
				return err == nil && len(in.Waiters) > 0
			})
		}
		must(t, first.Unlock(ctx))
		must(t, <-second)
	}
	permits := semaphore.New(clients[0], "permits", 2)
	permit, err := permits.Acquire(ctx)
	must(t, err)
	must(t, permit.Release(ctx))
	ended := errors.New("enough led")
	err = election.New(clients[0], "leader").Run(ctx, func(context.Context, *election.Term) error { return ended })
	if !errors.Is(err, ended) {
		t.Error(err)
	}
}
