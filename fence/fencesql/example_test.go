// SPDX-License-Identifier: Apache-2.0

package fencesql_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/redlock-go/redlock/fence/fencesql"
)

// The short shape: the token is shown before the first read, in the transaction of the work. ../internal/sqltest runs both shapes on a
// database, with what happens without them.
func Example() {
	fence, err := fencesql.New(fencesql.Config{Dialect: fencesql.PostgreSQL})
	if err != nil {
		log.Fatal(err)
	}
	settle := func(ctx context.Context, db *sql.DB, token int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if err := fence.Present(ctx, tx, "invoice/4711", token); err != nil {
			return err // another holder was here after us: errors.Is(err, fence.ErrStale)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE invoice SET settled = true WHERE id = 4711"); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = settle // inside Do: settle(ctx, db, lease.Token())
}
