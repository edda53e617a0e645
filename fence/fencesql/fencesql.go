// SPDX-License-Identifier: Apache-2.0

// Package fencesql keeps the fence of a resource in an SQL table, through database/sql, inside the caller's transaction.
//
// Guarantee and conditions are those of package fence. In terms of transactions there are two correct shapes:
//
//	short: one transaction: Present, read, write, commit
//	long:  first transaction: Present, read, commit; then the work; last transaction: Check, write, commit
//
// The short one keeps the row locked from Present to the commit, so keep it short; the long one keeps no lock in the database while
// the work goes on, and its Check refuses if another holder presented meanwhile. Call Present and Check as the first statement of
// their transaction: where the database gives a transaction one snapshot, the snapshot is then taken behind the lock, not before.
//
// Any error means: roll back. Then nothing is left behind. The database may also refuse with an error of its own (busy, deadlock,
// serialization failure); that is not a verdict on the token, and the transaction may be tried again. The row lock makes READ COMMITTED
// enough; PostgreSQL's higher levels refuse where that one waits.
//
// The fence is a table of its own, on all three databases:
//
//	CREATE TABLE redlock_fence (resource VARCHAR(512) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL)
//
// or a column of the resource's table, BIGINT NOT NULL DEFAULT 0. The name of a lock has up to 512 bytes. In MySQL write VARBINARY(512) in
// place of VARCHAR(512): by its usual collations, names that differ only in case share a fence, and by most of them, utf8mb4_bin
// included, so do names that differ only in spaces at the end.
package fencesql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/fence"
)

// Dialect names the database, for the three things that differ: placeholders, row locks, insert-unless-there.
type Dialect int

const (
	SQLite     Dialect = iota + 1 // 3.24 or later
	PostgreSQL                    // 9.5 or later
	MySQL                         // InnoDB; also MariaDB
)

// Config says where the fence is kept. Table, Key and Column are spliced into the SQL text and so must match
// [A-Za-z_][A-Za-z0-9_]*; they are not quoted. An empty one means its default.
type Config struct {
	Dialect Dialect // no default
	Table   string  // default "redlock_fence"
	Key     string  // column that names the resource, default "resource"; must be the primary key or UNIQUE
	Column  string  // column that keeps the largest token seen, default "fence"; must be 64 bit and NOT NULL
}

// Fence presents and checks tokens. It is immutable: any goroutine may use it. The zero value is refused; use New.
type Fence struct {
	raise, confirm string // (token, resource, token)
	insert, seen   string // (resource)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// New returns the fence that cfg describes, or an error that names the bad field. It does not touch the database.
func New(cfg Config) (*Fence, error) {
	table, key, column := cmp.Or(cfg.Table, "redlock_fence"), cmp.Or(cfg.Key, "resource"), cmp.Or(cfg.Column, "fence")
	for _, f := range [][2]string{{"Table", table}, {"Key", key}, {"Column", column}} {
		if !identifier.MatchString(f[1]) {
			return nil, fmt.Errorf("fencesql: Config.%s %q: want a plain identifier, [A-Za-z_][A-Za-z0-9_]*", f[0], f[1])
		}
	}
	unlessThere, rowLock := "ON CONFLICT ("+key+") DO NOTHING", " FOR UPDATE"
	switch cfg.Dialect {
	case SQLite:
		rowLock = "" // an UPDATE has locked the whole database
	case PostgreSQL:
	case MySQL:
		// Not INSERT IGNORE: that also turns a value cut short into a warning.
		unlessThere = "ON DUPLICATE KEY UPDATE " + key + " = " + key
	default:
		return nil, fmt.Errorf("fencesql: Config.Dialect %d: want fencesql.SQLite, PostgreSQL or MySQL", cfg.Dialect)
	}
	statement := strings.NewReplacer("TABLE", table, "KEY", key, "COLUMN", column, "UNLESS_THERE", unlessThere, "ROW_LOCK", rowLock).Replace
	f := &Fence{
		raise: statement("UPDATE TABLE SET COLUMN = ? WHERE KEY = ? AND COLUMN <= ?"),
		// Changes nothing, but takes the write lock before the read below. In SQLite a transaction that reads first and writes
		// later fails at once if another one wrote in between (SQLITE_BUSY_SNAPSHOT), whatever its busy timeout.
		confirm: statement("UPDATE TABLE SET COLUMN = ? WHERE KEY = ? AND COLUMN = ?"),
		insert:  statement("INSERT INTO TABLE (KEY, COLUMN) VALUES (?, 0) UNLESS_THERE"),
		// Invariant: a nil verdict means that tx holds the row's lock. The update took it, except where it found no row and another
		// transaction made one since. Besides, a plain read may see an old snapshot in MySQL, and so accept a stale token.
		seen: statement("SELECT COLUMN FROM TABLE WHERE KEY = ?ROW_LOCK"),
	}
	if cfg.Dialect == PostgreSQL {
		for _, s := range []*string{&f.raise, &f.confirm, &f.insert, &f.seen} {
			*s = numbered(*s)
		}
	}
	return f, nil
}

// numbered turns ? ? ? into $1 $2 $3. Identifiers hold no question mark.
func numbered(statement string) string {
	parts := strings.Split(statement, "?")
	for i := 1; i < len(parts); i++ {
		parts[i] = "$" + strconv.Itoa(i) + parts[i]
	}
	return strings.Join(parts, "")
}

// Present shows the token to the resource and remembers it: call it before the first read. A token equal to the largest one seen is
// accepted, a smaller one refused with a *fence.StaleError. A resource without a row gets one (in a column of your own table that
// needs defaults for the other columns). Two first presenters at once are told apart by the row: one waits for the other.
// In MySQL at REPEATABLE READ (its default) all but one may be ended by error 1213 (deadlock) instead; create the row beforehand to avoid that.
//
// The row stays locked until tx ends. After an error roll tx back; nothing is left behind.
func (f *Fence) Present(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if err := f.validate(ctx, tx, resource, token); err != nil {
		return err
	}
	seen, err := f.apply(ctx, tx, f.raise, resource, token)
	if err == nil && seen < token { // no row yet, or one that came between the two statements
		if _, err = tx.ExecContext(ctx, f.insert, resource); err == nil {
			seen, err = f.apply(ctx, tx, f.raise, resource, token)
		}
	}
	if err != nil {
		return fmt.Errorf("fencesql: present token %d to %q: %w", token, resource, err)
	}
	return fence.Check(resource, token, seen)
}

// Check lets a write in the same tx go on only if token is still the largest one seen: call it before the writes. The row stays
// locked until tx ends, so the verdict holds for all of them. A larger token gives a *fence.StaleError; a token never presented,
// or a row gone missing, an error that is fence.ErrNotPresented. After an error roll tx back; Check itself changes nothing.
func (f *Fence) Check(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if err := f.validate(ctx, tx, resource, token); err != nil {
		return err
	}
	seen, err := f.apply(ctx, tx, f.confirm, resource, token)
	if err != nil {
		return fmt.Errorf("fencesql: check token %d of %q: %w", token, resource, err)
	}
	return fence.Check(resource, token, seen)
}

// apply runs an update and returns the token stored after it, 0 if there is no row. It does not ask for the number of rows
// affected: MySQL counts changed rows there, so 0 for an equal token.
func (f *Fence) apply(ctx context.Context, tx *sql.Tx, update, resource string, token int64) (seen int64, err error) {
	if _, err := tx.ExecContext(ctx, update, token, resource, token); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, f.seen, resource).Scan(&seen)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seen, err
}

func (f *Fence) validate(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	switch {
	case f == nil || f.raise == "":
		return errors.New("fencesql: Fence was not made by New")
	case ctx == nil:
		return errors.New("fencesql: nil context")
	case tx == nil:
		return errors.New("fencesql: nil transaction: begin one, present the token in it, then read")
	}
	return fence.Validate(resource, token)
}
