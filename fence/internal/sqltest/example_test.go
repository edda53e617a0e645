// SPDX-License-Identifier: Apache-2.0

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	_ "modernc.org/sqlite"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fencesql"
)

// bank holds one account, and the fence of the lock that guards it.
type bank struct {
	db    *sql.DB
	fence *fencesql.Fence
}

func openBank() bank {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // in memory, each connection would be a database of its own
	_, err = db.Exec(`
		CREATE TABLE account (id TEXT PRIMARY KEY, balance BIGINT NOT NULL);
		INSERT INTO account VALUES ('ann', 100);
		CREATE TABLE redlock_fence (resource VARCHAR(512) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL)`)
	if err != nil {
		log.Fatal(err)
	}
	f, err := fencesql.New(fencesql.Config{Dialect: fencesql.SQLite})
	if err != nil {
		log.Fatal(err)
	}
	return bank{db, f}
}

type guard func(ctx context.Context, tx *sql.Tx, resource string, token int64) error

// none lets everybody through.
func none(context.Context, *sql.Tx, string, int64) error { return nil }

func (b bank) balance(token int64, first guard) int {
	var n int
	err := b.inTx(token, first, func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT balance FROM account WHERE id = 'ann'").Scan(&n)
	})
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func (b bank) setBalance(token int64, n int, first guard) error {
	return b.inTx(token, first, func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE account SET balance = ? WHERE id = 'ann'", n)
		return err
	})
}

func (b bank) inTx(token int64, first guard, work func(*sql.Tx) error) error {
	tx, err := b.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	if err := first(context.Background(), tx, "ann", token); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// A holds the lock with token 5 and wants to add 10, but is paused after its read until the lease is over. B gets the lock with token
// 6 and adds 1. Without a fence A's update is lost. With a fence only at the write it is lost as well: when A writes, 5 is still the
// largest token seen. With the token presented before the first read A is refused, and does its work again under a new lease.
func Example() {
	run := func(beforeRead, beforeWrite func(bank) guard) bank {
		bank := openBank()
		a := bank.balance(5, beforeRead(bank)) // A pauses here
		b := bank.balance(6, beforeRead(bank))
		err := bank.setBalance(5, a+10, beforeWrite(bank)) // A wakes up
		fmt.Println("  A adds 10:", outcome(err))
		err = bank.setBalance(6, b+1, beforeWrite(bank))
		fmt.Println("  B adds 1: ", outcome(err))
		return bank
	}
	unguarded := func(bank) guard { return none }
	present := func(b bank) guard { return b.fence.Present }
	check := func(b bank) guard { return b.fence.Check }

	fmt.Println("no fence")
	bank := run(unguarded, unguarded)
	fmt.Println("  balance:", bank.balance(6, none))
	bank.db.Close()

	fmt.Println("token shown with the write")
	bank = run(unguarded, present)
	fmt.Println("  balance:", bank.balance(6, none))
	bank.db.Close()

	fmt.Println("token shown before the first read")
	bank = run(present, check)
	n := bank.balance(7, bank.fence.Present) // A again, with the token of its new lease
	err := bank.setBalance(7, n+10, bank.fence.Check)
	fmt.Println("  A adds 10:", outcome(err))
	fmt.Println("  balance:", bank.balance(7, none))
	bank.db.Close()

	// Output:
	// no fence
	//   A adds 10: done
	//   B adds 1:  done
	//   balance: 101
	// token shown with the write
	//   A adds 10: done
	//   B adds 1:  done
	//   balance: 101
	// token shown before the first read
	//   A adds 10: refused, token 6 was seen
	//   B adds 1:  done
	//   A adds 10: done
	//   balance: 111
}

func outcome(err error) string {
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		return fmt.Sprintf("refused, token %d was seen", stale.Seen)
	}
	if err != nil {
		log.Fatal(err)
	}
	return "done"
}
