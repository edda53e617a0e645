// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/redlock/event"
)

// inMemory returns three masters in memory that vote, and a function that opens a client on them.
// So the examples run without Redis. A program calls redlock.Open with the URLs of its masters.
func inMemory() (masters []*nodetest.Master, open func(...redlock.Option) *redlock.Client) {
	for _, name := range []string{"m1", "m2", "m3"} {
		masters = append(masters, nodetest.NewMaster(name))
	}
	clk, patient := clock.Monotonic(), 2*time.Second // the machine may be busy
	opts := []redlock.Option{redlock.WithClock(clk), redlock.WithNodeTimeout(patient)}
	nodes := func() (nodes []node.Node) {
		for _, m := range masters {
			nodes = append(nodes, m.Node(node.Config{Clock: clk, StallAfter: patient}))
		}
		return nodes
	}
	operator := nodes()
	list := admin.List{Nodes: operator, Options: opts}
	if err := admin.Init(context.Background(), list, nil, admin.NothingWasEverLocked); err != nil {
		log.Fatal(err)
	}
	for _, n := range operator {
		n.Close()
	}
	return masters, func(more ...redlock.Option) *redlock.Client {
		client, err := redlock.New(context.Background(), nodes(), append(slices.Clone(opts), more...)...)
		if err != nil {
			log.Fatal(err)
		}
		return client
	}
}

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := redlock.Open(ctx, []string{
		"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
	}, redlock.WithLogger(slog.Default())) // which says whom Open waits for
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("invoice/4711").Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
		fmt.Println("nobody else settles invoice 4711 now; token", lease.Token())
		return ctx.Err() // ends, with a cause, before the lease does
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Two processes try the same lock. The first one gets it, and the second one is told that it is
// held.
func ExampleClient_Mutex() {
	_, open := inMemory()
	a, b := open(), open() // one client for each process
	defer a.Close()
	defer b.Close()
	ctx := context.Background()

	lease, err := a.Mutex("nightly-report").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.Mutex("nightly-report").TryLock(ctx)
	fmt.Println("held by another:", errors.Is(err, redlock.ErrHeld))
	var round *redlock.RoundError
	if errors.As(err, &round) {
		fmt.Println("the holder is a:", round.Holder == lease.Holder())
	}

	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	lease, err = b.Mutex("nightly-report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	fmt.Println("b has the lock now")

	// Output:
	// held by another: true
	// the holder is a: true
	// b has the lock now
}

// Do takes the lock, runs a function and unlocks. The function gets its lease. The
// fencing token of each lease is larger than that of the lease before, so a resource can refuse a
// writer whose lease is over (package fence).
func ExampleMutex_Do() {
	_, open := inMemory()
	client := open()
	defer client.Close()
	m := client.Mutex("invoice/4711")

	var seen int64 // the resource keeps the largest token that it has seen
	write := func(token int64) error {
		if token < seen {
			return errors.New("this writer's lease is over")
		}
		seen = token
		return nil
	}
	var first int64
	settle := func(ctx context.Context, lease *redlock.Lease) error { // ctx ends before another can have the lock
		token := lease.Token()
		if first == 0 {
			first = token
		}
		return write(token)
	}
	for range 2 {
		if err := m.Do(context.Background(), settle); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("late writer:", write(first))

	// Output:
	// late writer: this writer's lease is over
}

// A program starts while its masters are down. Open waits until ctx ends.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	client, err := redlock.Open(ctx, []string{ // no server listens there
		"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3",
	})
	switch {
	case err == nil:
		defer client.Close()
	case errors.Is(err, redlock.ErrUnreachable):
		fmt.Println("no quorum of masters answered before ctx ended:", errors.Is(err, context.DeadlineExceeded))
	default:
		log.Fatal(err) // waiting does not help: the error says what to do
	}

	// Output:
	// no quorum of masters answered before ctx ended: true
}

// One Redis Cluster is all there is: its masters are the quorum. docs/choose-your-redis.md says what that does not
// promise.
func ExampleOpenCluster() {
	const url = "redis-cluster://10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379" // any of its servers
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// Once, by an operator:
	urls, err := redlock.ClusterURLs(url)
	if err != nil {
		log.Fatal(err)
	}
	if err := admin.Init(ctx, admin.List{URLs: urls}, nil, admin.NothingWasEverLocked); err != nil {
		log.Fatal(err)
	}

	client, err := redlock.OpenCluster(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("invoice/4711").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
		return nil // only one program at a time is here
	})
	if err != nil {
		log.Print(err)
	}
}

// A caller that would rather fail than wait for the end of an outage.
func ExampleWithOutageTimeout() {
	masters, open := inMemory()
	client := open()
	defer client.Close()
	m := client.Mutex("invoice/4711", redlock.WithOutageTimeout(50*time.Millisecond))

	for _, master := range masters {
		master.Crash()
	}
	_, err := m.Lock(context.Background())
	fmt.Println("gave up in the outage:", errors.Is(err, redlock.ErrUnreachable))

	// Output:
	// gave up in the outage: true
}

// What a program does about each outcome.
func ExampleMutex_TryLock() {
	var client *redlock.Client // from redlock.Open
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	lease, err := client.Mutex("nightly-report").TryLock(ctx)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return // somebody else does it
	case errors.Is(err, redlock.ErrUnavailable):
		log.Printf("not now: %v", err) // says which master, why, and how long
		return
	case err != nil:
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	fmt.Println("fencing token", lease.Token())
}

// The Observer hears how each call for a lock ended, and how each lease did.
func ExampleWithObserver() {
	ctx := context.Background()
	_, open := inMemory()
	other := open()
	defer other.Close()
	client := open(redlock.WithObserver(&event.Observer{
		Acquired: func(_ context.Context, e event.Acquire) {
			fmt.Println(e.Lock, "is had:", e.Err == nil, "held by another:", errors.Is(e.Err, redlock.ErrHeld))
		},
		Ended: func(e event.End) { fmt.Println(e.Lock, "is", e.Ending) },
	}))
	defer client.Close()

	if _, err := other.Mutex("invoice/4711").TryLock(ctx); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"invoice/4711", "invoice/4712"} {
		_, _ = client.Mutex(name).TryDo(ctx, func(context.Context, *redlock.Lease) error { return nil })
	}

	// Output:
	// invoice/4711 is had: false held by another: true
	// invoice/4712 is had: true held by another: false
	// invoice/4712 is released
}

// A job that only one of many processes runs.
func ExampleMutex_TryDo() {
	var client *redlock.Client // from redlock.Open
	ran, err := client.Mutex("nightly-report").TryDo(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
		return ctx.Err() // the report
	})
	switch {
	case err != nil:
		log.Print(err)
	case !ran:
		log.Print("another process writes the report")
	}
}

// Readers share, a writer excludes everybody.
func ExampleRWMutex() {
	var client *redlock.Client // from redlock.Open
	rw := client.RWMutex("catalogue")
	ctx := context.Background()
	err := rw.RDo(ctx, func(ctx context.Context, _ *redlock.Lease) error { return nil }) // read
	if err == nil {
		err = rw.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error { return nil }) // write
	}
	if err != nil {
		log.Print(err)
	}
}

// Two readers hold the lock at the same time. A writer gets it when both have unlocked.
func ExampleRWMutex_RLock() {
	_, open := inMemory()
	a, b := open(), open() // one client for each process
	defer a.Close()
	defer b.Close()
	ctx := context.Background()

	var readers []*redlock.Lease
	for _, client := range []*redlock.Client{a, b} {
		lease, err := client.RWMutex("catalogue").RLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		readers = append(readers, lease)
	}
	fmt.Println("readers:", len(readers))
	_, err := a.RWMutex("catalogue").TryLock(ctx)
	fmt.Println("writer refused:", errors.Is(err, redlock.ErrHeld))

	for _, lease := range readers {
		if err := lease.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	writer, err := a.RWMutex("catalogue").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Unlock(ctx)
	fmt.Println("writer has the lock")

	// Output:
	// readers: 2
	// writer refused: true
	// writer has the lock
}

// An operator looks who has a lock, and takes it away from a holder that is stuck.
func ExampleClient_ForceUnlock() {
	_, open := inMemory()
	client, operator := open(redlock.WithClientName("billing/pod-7")), open()
	defer client.Close()
	defer operator.Close()
	ctx := context.Background()
	lease, err := client.Mutex("invoice/4711").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	in, err := operator.Inspect(ctx, "invoice/4711")
	if err != nil {
		log.Fatal(err)
	}
	holder := in.Holders[0]
	fmt.Println("held by:", holder.Owner)
	fmt.Println("taken away:", operator.ForceUnlock(ctx, in.Name, holder.ID))
	next, err := operator.Mutex("invoice/4711").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the token has grown:", next.Token() > lease.Token())
	fmt.Println("once more:", errors.Is(operator.ForceUnlock(ctx, in.Name, holder.ID), redlock.ErrNotHolder))
	err = lease.Extend(ctx)
	fmt.Println("told at the next extend:", errors.Is(err, redlock.ErrLost))
	if !errors.Is(err, redlock.ErrLost) {
		fmt.Println(err)
	}

	// Output:
	// held by: billing/pod-7
	// taken away: <nil>
	// the token has grown: true
	// once more: true
	// told at the next extend: true
}

// All locks that are held, and by whom.
func ExampleClient_Locks() {
	_, open := inMemory()
	client := open(redlock.WithClientName("billing/pod-7"))
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Mutex("invoice/4711").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	for in, err := range client.Locks(ctx, "invoice/") {
		if err != nil {
			log.Fatal(err)
		}
		for _, h := range in.Holders {
			fmt.Println(in.Name, h.Owner, h.ID == lease.Holder())
		}
	}

	// Output: invoice/4711 billing/pod-7 true
}

// A function that is called with the lock or without it.
func ExampleWithReentry() {
	var client *redlock.Client // from redlock.Open
	m := client.Mutex("ledger", redlock.WithReentry())
	post := func(ctx context.Context) error {
		return m.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error { return nil })
	}
	err := m.Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
		return post(ctx) // the same hold, the same token
	})
	if err != nil {
		log.Print(err)
	}
}

// Work that ends with the lease and with the request.
func ExampleLease_Bind() {
	var lease *redlock.Lease // from Mutex.Lock
	request, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ctx, stop := lease.Bind(request)
	defer stop()
	<-ctx.Done()
	log.Print(context.Cause(ctx)) // which of the two it was
}

// Who has a lock, who waits for it, and what each master says.
func ExampleClient_Inspect() {
	_, open := inMemory()
	client := open(redlock.WithClientName("billing/pod-7"))
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Mutex("invoice/4711").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	show := func(in *redlock.Inspection) {
		who := func(h redlock.Holder) string { return fmt.Sprint(h.Owner, " ", h.ID == lease.Holder()) }
		for _, h := range in.Holders {
			fmt.Println("holder:", who(h))
		}
		waiting := func(w redlock.Waiter) { fmt.Println("waits:", w.Owner) }
		for _, w := range in.Waiters {
			waiting(w)
		}
		says := func(m redlock.MasterInspection) string { return fmt.Sprint(m.Name, " ", m.Err == nil) }
		fmt.Println(says(in.Masters[0]))
	}
	in, err := client.Inspect(ctx, "invoice/4711")
	if err != nil {
		log.Fatal(err)
	}
	show(in)

	// Output:
	// holder: billing/pod-7 true
	// m1 true
}

// A function for whatever lock its caller chose, and one for whatever is held: a lease, a permit, a term, a multilock.
func ExampleHeld() {
	_, open := inMemory()
	client := open()
	defer client.Close()
	write := func(h redlock.Held, text string) error {
		if err := h.Err(); err != nil {
			return err // it is over, and why
		}
		fmt.Println(text, "under", h.Name(), "with a token:", h.Token() > 0)
		return nil
	}
	under := func(l redlock.Locker) error {
		return l.Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
			fmt.Println("the context has it too:", redlock.LeaseFrom(ctx) == lease)
			return write(lease, "written")
		})
	}
	fmt.Println(under(client.Mutex("invoice/4711")))

	// Output:
	// the context has it too: true
	// written under invoice/4711 with a token: true
	// <nil>
}
