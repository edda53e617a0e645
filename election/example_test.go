// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/simtest"
)

// Two processes are candidates. The first leads, and the second when the first resigns.
func Example() {
	masters := simtest.New(3).Patient() // in memory; a program calls redlock.Open
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := masters.Init(ctx); err != nil {
		log.Fatal(err)
	}
	leads := make(chan *election.Election)
	var candidates sync.WaitGroup
	candidate := func(address string) *election.Election {
		client, err := masters.Open(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		e := election.New(client.Client, "scheduler", election.WithValue(address))
		candidates.Go(func() {
			defer client.Close()
			err := e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				leads <- e
				<-ctx.Done() // a program schedules until then, and presents term.Token() to what it writes
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				log.Print(err)
			}
		})
		return e
	}

	candidate("http://10.0.0.1")
	first := <-leads
	candidate("http://10.0.0.2")
	was, err := first.Leader(ctx) // every candidate can ask, and so can a process that only looks
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leads:", was.Value)

	if err := first.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	second := <-leads
	is, err := second.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leads:", is.Value)
	fmt.Println("the token has grown:", is.Token > was.Token)

	cancel()
	candidates.Wait()

	// Output:
	// leads: http://10.0.0.1
	// leads: http://10.0.0.2
	// the token has grown: true
}

// A process that is no candidate follows the leader.
func ExampleElection_Observe() {
	masters := simtest.New(3).Patient() // in memory; a program calls redlock.Open
	ctx := context.Background()
	if err := masters.Init(ctx); err != nil {
		log.Fatal(err)
	}
	client, err := masters.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	candidate := election.New(client.Client, "scheduler", election.WithValue("http://10.0.0.1"))
	leading, leave := context.WithCancel(ctx)
	defer leave()
	var run sync.WaitGroup

	for leader, err := range election.New(client.Client, "scheduler").Observe(ctx) {
		switch {
		case err == nil:
			fmt.Println("leads:", leader.Value)
			leave()
		case errors.Is(err, election.ErrNoLeader) && leading.Err() == nil:
			fmt.Println("nobody leads yet")
			run.Go(func() {
				_ = candidate.Run(leading, func(ctx context.Context, _ *election.Term) error {
					<-ctx.Done()
					return nil
				})
			})
			continue
		case errors.Is(err, election.ErrNoLeader):
			fmt.Println("nobody leads any more")
			run.Wait()
			return
		default:
			log.Print(err) // the masters do not tell; the loop goes on when they do
		}
	}

	// Output:
	// nobody leads yet
	// leads: http://10.0.0.1
	// nobody leads any more
}
