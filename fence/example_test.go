// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redlock-go/redlock/fence"
)

// account is a resource that keeps the fence beside its data, under one mutex: check and write are one step.
type account struct {
	mu      sync.Mutex
	seen    int64
	balance int
}

// read shows the token first, and reads then.
func (a *account) read(token int64) (balance int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := fence.Validate("account/17", token); err != nil {
		return 0, err
	}
	a.seen = max(a.seen, token)
	return a.balance, fence.Check("account/17", token, a.seen)
}

func (a *account) write(token int64, balance int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := fence.Check("account/17", token, a.seen); err != nil {
		return err
	}
	a.balance = balance
	return nil
}

// A holder is paused past the end of its lease, and wakes when the next one has read.
func Example() {
	a := &account{balance: 100}
	const first, second = 5, 6 // the tokens of two leases of one lock: lease.Token()

	paused, _ := a.read(first)
	balance, _ := a.read(second)
	fmt.Println("the paused one:", errors.Is(a.write(first, paused-70), fence.ErrStale))
	fmt.Println("the other one:", a.write(second, balance-30))
	fmt.Println(a.balance)

	// Output:
	// the paused one: true
	// the other one: <nil>
	// 70
}
