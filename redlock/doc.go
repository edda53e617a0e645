// SPDX-License-Identifier: Apache-2.0

// Package redlock is a distributed lock over several independent Redis masters. A lock is
// held when a majority of the masters, the quorum, has a vote of its holder.
//
//	opening, cancel := context.WithTimeout(ctx, 30*time.Second) // without a deadline Open waits for ever
//	defer cancel()
//	client, err := redlock.Open(opening, []string{"redis://a:6379", "redis://b:6379", "redis://c:6379"},
//		redlock.WithLogger(slog.Default())) // without a logger it waits without a word
//	...
//	err = client.Mutex("invoice-42").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
//		return pay(ctx, lease.Token())
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
// replies. This has seven conditions:
//
//   - (a) the clocks of clients and masters run apart by no more than the drift, 1 % + 2 ms by
//     default;
//   - (b) recovery is on, as it is by default;
//   - (c) all clients have the same list of masters, the same maximum TTL and the same drift,
//     which the scripts enforce, and a name in the list leads them all to the same server and
//     database;
//   - (d) no master's data set is rolled back, or loses a part to a slot's move that is given up,
//     while the master runs on, and no client's process is copied while it runs;
//   - (e) a server that was replaced under a master's name, by its replica or by another one, gives
//     no more votes when the wait of the other begins, nor under that name again before it was
//     restarted or became the other's replica;
//   - (f) only clients of this library write the keys of its locks, and publish on the channels
//     redlock:wake:*;
//   - (g) all locks of one name have the same TTL.
//
// [Lease.ValidUntil] is when the validity ends. A client whose process stops for longer than the validity is
// not stopped by the library: see the next guarantee.
//
// Fencing: [Lease.Token] is larger than the token of every lease of the same lock that was
// granted before the call of Lock began, under conditions (b) to (f). A resource that refuses smaller tokens (package fence) refuses a client
// that acts after its lease ended.
//
// Liveness: a lock is granted while a quorum of masters votes. Waiting clients are served in
// the order in which they began to wait, but for a lock that is held so briefly that callers of one process
// pass it on first, and callers that do not queue: see [Mutex.Lock]. If a client dies, its lease ends with the TTL.
//
// Restarts: a master that lost its data, or may have lost some, does not vote until every
// lock that it may have voted for is over. Condition (d) is about what it cannot notice.
//
// docs/safety.md has the conditions of each guarantee and the proofs.
//
// # Errors and values
//
// Every error wraps one of the Err values of this package, or is the error of the caller's
// context. A nil context, a nil function, and a nil or zero Client, Mutex or Lease give
// [ErrConfig]. All methods are safe for concurrent use.
//
// docs/internals/architecture.md says how the package is built.
package redlock
