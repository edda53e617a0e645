// SPDX-License-Identifier: Apache-2.0

package gocronlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	gocronlock "github.com/redlock-go/redlock/compat/gocron"
	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/redlock"
)

// inMemory returns a client on masters in memory, so that the examples run without Redis. A program calls
// redlock.Open with the URLs of its masters.
func inMemory() *redlock.Client {
	masters, ctx := simtest.New(3).Patient(), context.Background()
	if err := masters.Init(ctx); err != nil {
		log.Fatal(err)
	}
	client, err := masters.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	return client.Client
}

// Every process has the schedule. One of them does each run of the job.
func ExampleLocker() {
	client := inMemory()
	defer client.Close()

	locker := gocronlock.NewLocker(client, time.Second) // the clocks are apart by less
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan bool)
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(func(ctx context.Context) {
			lease := locker.Lease("report")
			ctx, stop := lease.Bind(ctx) // ends when the lock is lost
			defer stop()
			ran <- ctx.Err() == nil && lease.Token() > 0
		}),
		gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	fmt.Println("ran under a lock:", <-ran)
	if err := s.Shutdown(); err != nil {
		log.Fatal(err)
	}

	// Output:
	// ran under a lock: true
}

// Every process has the schedule. One of them leads, and runs all jobs.
func ExampleElector() {
	client := inMemory()
	defer client.Close()
	ctx := context.Background()

	elector := gocronlock.NewElector(client, "scheduler", election.WithValue("host-1"))
	defer elector.Close()
	for leader, err := range election.New(client, "scheduler").Observe(ctx) {
		if err == nil {
			fmt.Println("leads:", leader.Value) // the schedule may start before, and then does nothing
			break
		}
	}

	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan bool, 1)
	// A run that falls due before this process knows that it leads is nobody's: the next one is done.
	_, err = s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
		select {
		case ran <- true:
		default:
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	fmt.Println("ran:", <-ran)
	if err := s.Shutdown(); err != nil {
		log.Fatal(err)
	}

	// Output:
	// leads: host-1
	// ran: true
}
