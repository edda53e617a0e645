// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/metrics/dashboard/internal/recording"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

const (
	masterCount = 5
	clientCount = 2
	// The maximum TTL is how long a restarted master does not vote: with the default of 30 s most of the picture would be that.
	maxTTL      = 10 * time.Second
	runLength   = 100 * time.Second
	scrapeEvery = time.Second
	// How long the clients work, and are scraped, before the picture begins: a rate is too low while its window has samples in a part of it only.
	warmUp = 6 * time.Second
)

// site is the masters and the clients of a recording.
type site struct {
	masters []*localredis.Server
	urls    []string
	clients []*redlock.Client
	rec     *recording.Recording
	work    sync.WaitGroup

	mu     sync.Mutex
	failed error // what acts could not do; guarded by mu
}

// act is what happens in a recording. undo is nil for what takes no time.
type act struct {
	happen
	do, undo func(s *site, ctx context.Context) error
}

// acts are far enough apart for the dashboard to be calm between them.
var acts = []act{
	{happen{8, 22, "killed", "m2 is killed"}, func(s *site, _ context.Context) error { return s.masters[1].Kill() }, nil},
	{happen{22, 0, "back", "m2 is back without its data and recovers for 10 s, the maximum TTL"}, func(s *site, ctx context.Context) error { return s.masters[1].Restart(ctx) }, nil},
	{happen{42, 52, "hung", "m4 hangs"}, pause(3), resume(3)},
	{happen{60, 70, "burst", "40 callers want one lock"}, (*site).burst, nil},
	{happen{80, 87, "no quorum", "m1, m2 and m3 hang: no quorum votes"}, pause(0, 1, 2), resume(0, 1, 2)},
}

func pause(masters ...int) func(*site, context.Context) error {
	return func(s *site, _ context.Context) (err error) {
		for _, i := range masters {
			err = errors.Join(err, s.masters[i].Pause())
		}
		return err
	}
}

func resume(masters ...int) func(*site, context.Context) error {
	return func(s *site, _ context.Context) (err error) {
		for _, i := range masters {
			err = errors.Join(err, s.masters[i].Resume())
		}
		return err
	}
}

// record has clients work on real masters, and scrapes them, for runLength/speed. All that it starts has ended when it returns.
func record(ctx context.Context, speed float64) (r *run, err error) {
	_, server, err := localredis.Find()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &site{rec: recording.New("shop")}
	defer func() {
		stop()
		s.work.Wait()
		err = errors.Join(err, s.failed, s.close())
	}()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	for _, c := range s.clients {
		s.steady(ctx, c)
	}
	r = &run{Masters: fmt.Sprintf("%d masters (%s)", masterCount, server), Clients: fmt.Sprintf("%d clients", clientCount), Every: scrapeEvery.Seconds() / speed}
	start := time.Now().Add(time.Duration(float64(warmUp) / speed))
	for _, a := range acts {
		a.From, a.Until = a.From/speed, a.Until/speed
		r.Events = append(r.Events, a.happen)
		s.work.Go(func() {
			if err := s.play(ctx, start, a); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.failed = errors.Join(s.failed, err)
			}
		})
	}
	if err := s.scrape(ctx, r, start, speed); err != nil {
		return nil, err
	}
	r.keep(s.rec, start, s.names())
	return r, nil
}

// open starts masters that vote, and clients that are scraped.
func (s *site) open(ctx context.Context) (err error) {
	if s.masters, err = localredis.StartN(ctx, masterCount, localredis.Config{}); err != nil {
		return err
	}
	for _, m := range s.masters {
		s.urls = append(s.urls, m.URL())
	}
	opts := []redlock.Option{redlock.WithFixedMasters(), redlock.WithMaxTTL(maxTTL)}
	if err := admin.Init(ctx, admin.List{URLs: s.urls, Options: opts}, nil, admin.NothingWasEverLocked); err != nil {
		return err
	}
	for i := range clientCount {
		m := metrics.New(metrics.Config{Class: func(name string) string {
			class, _, _ := strings.Cut(name, "/")
			return class
		}})
		c, err := redlock.Open(ctx, s.urls, append(opts, redlock.WithObserver(m.Observer()))...)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c)
		s.rec.Serve(fmt.Sprintf("host-%d", i+1), m)
	}
	return nil
}

func (s *site) close() (err error) {
	for _, c := range s.clients {
		err = errors.Join(err, c.Close())
	}
	for _, m := range s.masters {
		err = errors.Join(err, m.Close())
	}
	return err
}

// scrape scrapes until the run is over.
func (s *site) scrape(ctx context.Context, r *run, start time.Time, speed float64) error {
	ticker := time.NewTicker(time.Duration(float64(scrapeEvery) / speed))
	defer ticker.Stop()
	for time.Since(start).Seconds() < runLength.Seconds()/speed {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := time.Now()
		r.Scrapes = append(r.Scrapes, now.UnixMilli()-start.UnixMilli())
		if err := s.rec.Scrape(now); err != nil {
			return err
		}
	}
	return nil
}

// play does what an act is, in its time.
func (s *site) play(ctx context.Context, start time.Time, a act) error {
	if !sleep(ctx, time.Until(start.Add(asTime(a.From)))) {
		return nil
	}
	if a.Until > 0 && a.undo == nil { // it ends by itself
		limited, cancel := context.WithDeadline(ctx, start.Add(asTime(a.Until)))
		defer cancel()
		ctx = limited
	}
	if err := a.do(s, ctx); err != nil {
		return fmt.Errorf("%s: %w", a.Text, err)
	}
	if a.undo == nil {
		return nil
	}
	sleep(ctx, time.Until(start.Add(asTime(a.Until)))) // undone also when the recording is ended early
	return a.undo(s, ctx)
}

// names makes m1 to m5 of the masters' addresses, whose ports are other ones in each recording.
func (s *site) names() map[string]string {
	names := make(map[string]string, len(s.masters))
	for i, m := range s.masters {
		names[m.Addr()] = fmt.Sprintf("m%d", i+1)
	}
	return names
}

func asTime(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
