// SPDX-License-Identifier: Apache-2.0

// Package redlock is a distributed lock over several independent Redis masters. A lock is
// held when a majority of the masters, the quorum, has a vote of its holder.
//
//	opening, cancel := context.WithTimeout(ctx, 30*time.Second) // without a deadline Open waits for ever
//	defer cancel()
//	client, err := redlock.Open(opening, []string{"redis://a:6379", "redis://b:6379", "redis://c:6379"},
//		redlock.WithLogger(slog.Default())) // without a logger it waits without a word
//	...
//	err = client.Mutex("invoice-42").Do(ctx, func(ctx context.Context) error {
//		return pay(ctx, redlock.LeaseFrom(ctx).Token())
//	})
//
// The function's context ends with ctx and with the lease. [Lease.Context], for programs that call Lock
// and Unlock themselves, ends with the lease alone: the context that Lock got bounds the wait. [Lease.Bind] makes
// a context that ends with both.
//
// # Guarantees
//
// Exclusion. While the validity of a lease lasts, no other lease of that lock is granted, under any
// number of process kills, restarts, flushes, promotions, partitions, delays, duplicates and lost
// replies. This has six conditions:
//
//   - (a) the clocks of clients and masters run apart by no more than the drift, 1 % + 2 ms by
//     default;
//   - (b) recovery is on, as it is by default;
//   - (c) all clients have the same list of masters, the same maximum TTL and the same drift,
//     which the scripts enforce;
//   - (d) no master's data set is rolled back while the master runs on;
//   - (e) a master that was replaced by its replica has stopped voting when the wait of the
//     replica is over;
//   - (f) only clients of this library write the keys of its locks, and publish on the channels
//     redlock:wake:*.
//
// [Lease.ValidUntil] is when the validity ends. A client whose process stops for longer than the validity is
// not stopped by the library: see the next guarantee.
//
// Fencing: [Lease.Token] is larger than the token of every lease of the same lock that was
// granted before the call of Lock began. A resource that refuses smaller tokens (package fence) refuses a client
// that acts after its lease ended.
//
// Liveness: a lock is granted while a quorum of masters votes. Waiting clients are served in
// the order in which they began to wait. If a client dies, its lease ends with the TTL.
//
// Restarts: a master that lost its data, or may have lost some, does not vote until every
// lock that it may have voted for is over.
//
// docs/safety.md has the conditions of each guarantee and the proofs.
//
// # Errors and values
//
// Every error wraps one of the Err values of this package, or is the error of the caller's
// context. A nil context, a nil function, and a nil or zero Client, Mutex or Lease give
// [ErrConfig]. All methods are safe for concurrent use.
//
// # How the package is built
//
// Decisions are pure, and have packages of their own:
//
//	internal/counting  votes, verdicts, tokens: when a round is won, and with which token
//	internal/holding   the life of a grant: which votes count, when it is valid, when it is lost
//	internal/waiting   which masters a waiter asks, its place in their queues, its patience
//	internal/masters   who of the masters may vote: it carries out what internal/membership decides
//
// This package drives them. It sends requests to package node, and keeps timers, goroutines
// and the lines of callers. The parts that the others use are few:
//
//	Client      the masters, the clock and the parts below; it has no decisions of its own
//	quorum.Call one request to every master, and the answers
//	round       one acquire: a quorum.Call, then a lease or a release
//	hold        one grant: the leases on it, its extends, top-ups and release
//	renewer     one timer for all holds of a client
//	waiters     all callers that wait, by lock; a contender is those that wait for one lock. Its
//	            last round stays open while it sleeps: a release may hand it votes
//	introducer  tells the masters the client's label, if it has one
//	observers   those who want to know when a lock's announcement changes: package election
//	masters.Keeper tells each node whether its master may be asked for votes; its Board has the state of each
//	telling     the functions of each Observer, by event
//
// A round makes a hold, and the renewer extends it. A contender makes rounds. None of counting,
// holding and waiting knows a Client.
//
// # Where to change what
//
//	a grant is decided       round.conclude and round.grant; counting.Tally and counting.Tokens
//	a lease is lost          holding.Grant (Check, Extended)
//	a master may vote again  package internal/membership; masters.Keeper tells the nodes
//	a release hands it on    hold.release; a waiter takes it: waiters.handedLocked, Mutex.takeOpen
//	a waiter is woken        waiters.message; waiting.Wakes
//	who has a lock           Inspection.read; what a holder says about itself: announce.go
//	a lock is taken away     Client.force
//	what an Observer hears   observe.go; the states of masters: masters.Board; the log: logger.go
//	an error's text          errors.go (a round), hold.go (a lease), masters.Keeper.Open
//	an option                options.go
package redlock
