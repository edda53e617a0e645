// SPDX-License-Identifier: Apache-2.0

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fencesql"
	"github.com/redlock-go/redlock/fence/internal/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const schema = `
	CREATE TABLE redlock_fence (resource VARCHAR(512) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL);
	CREATE TABLE account (id TEXT NOT NULL PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0, owner TEXT NOT NULL, balance TEXT NOT NULL);`

// open returns a fresh SQLite file that several connections may share.
func open(t *testing.T) *sql.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fence.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(8000)")
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = db.Exec(schema)
	must(t, err)
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func table(t *testing.T) *fencesql.Fence {
	return newFence(t, fencesql.Config{Dialect: fencesql.SQLite})
}

func newFence(t *testing.T, cfg fencesql.Config) *fencesql.Fence {
	t.Helper()
	f, err := fencesql.New(cfg)
	must(t, err)
	return f
}

// inTx runs steps in one transaction and commits if none fails.
func inTx(ctx context.Context, db *sql.DB, steps ...func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	for _, step := range steps {
		if err := step(tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func present(t *testing.T, db *sql.DB, f *fencesql.Fence, resource string, token int64) error {
	return inTx(t.Context(), db, func(tx *sql.Tx) error { return f.Present(t.Context(), tx, resource, token) })
}

func check(t *testing.T, db *sql.DB, f *fencesql.Fence, resource string, token int64) error {
	return inTx(t.Context(), db, func(tx *sql.Tx) error { return f.Check(t.Context(), tx, resource, token) })
}

// stored returns what the fence table holds, 0 for no row.
func stored(t *testing.T, db *sql.DB, resource string) (token int64) {
	t.Helper()
	err := db.QueryRow("SELECT fence FROM redlock_fence WHERE resource = ?", resource).Scan(&token)
	if !errors.Is(err, sql.ErrNoRows) {
		must(t, err)
	}
	return token
}

func wantStale(t *testing.T, err error, want fence.StaleError) {
	t.Helper()
	var stale *fence.StaleError
	ok := errors.As(err, &stale)
	if !ok || *stale != want || !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v, want a StaleError %+v", err, want)
	}
}

func TestPresent_sequenceOfTokens_largestKept(t *testing.T) {
	db, f := open(t), table(t)
	for _, token := range []int64{5, 5, 6, 1790000000123456, fence.MaxToken - 1, fence.MaxToken, fence.MaxToken} {
		must(t, present(t, db, f, "account", token))
		if got := stored(t, db, "account"); got != token {
			t.Errorf("presented %d, stored %d", token, got)
		}
	}
	wantStale(t, present(t, db, f, "account", fence.MaxToken-1), fence.StaleError{Resource: "account", Token: fence.MaxToken - 1, Seen: fence.MaxToken})
	if got := stored(t, db, "account"); got != fence.MaxToken {
		t.Errorf("a refused token changed the fence to %d", got)
	}
	must(t, present(t, db, f, "other", 1)) // resources do not meet
}

func TestPresent_rolledBack_nothingLeft(t *testing.T) {
	db, f := open(t), table(t)
	failed := errors.New("the work failed")
	err := inTx(t.Context(), db,
		func(tx *sql.Tx) error { return f.Present(t.Context(), tx, "account", 7) },
		func(*sql.Tx) error { return failed })
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if got := stored(t, db, "account"); got != 0 {
		t.Errorf("fence %d is left behind", got)
	}
	must(t, present(t, db, f, "account", 5))
}

func TestCheck_afterPresent_byWhoWasSeen(t *testing.T) {
	db, f := open(t), table(t)
	if err := check(t, db, f, "account", 5); !errors.Is(err, fence.ErrNotPresented) {
		t.Errorf("no row: %v", err)
	}
	must(t, present(t, db, f, "account", 5))
	must(t, check(t, db, f, "account", 5))
	if err := check(t, db, f, "account", 6); !errors.Is(err, fence.ErrNotPresented) {
		t.Errorf("6 was not presented: %v", err)
	}
	must(t, present(t, db, f, "account", 6))
	wantStale(t, check(t, db, f, "account", 5), fence.StaleError{Resource: "account", Token: 5, Seen: 6})
	if got := stored(t, db, "account"); got != 6 {
		t.Errorf("checks changed the fence to %d", got)
	}
}

// A column beside the data works without an insert, though the table has columns without defaults.
func TestPresent_columnOfTheResource_rowKept(t *testing.T) {
	db, f := open(t), newFence(t, fencesql.Config{Dialect: fencesql.SQLite, Table: "account", Key: "id"})
	_, err := db.Exec("INSERT INTO account (id, owner, balance) VALUES ('a', 'Ann', '100')")
	must(t, err)
	must(t, present(t, db, f, "a", 6))
	wantStale(t, present(t, db, f, "a", 5), fence.StaleError{Resource: "a", Token: 5, Seen: 6})
	must(t, check(t, db, f, "a", 6))
	var owner string
	must(t, db.QueryRow("SELECT owner FROM account WHERE id = 'a' AND fence = 6").Scan(&owner))

	if err := present(t, db, f, "b", 6); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "owner") {
		t.Errorf("a row that cannot be made: %v", err)
	}
}

func TestPresent_contextDone_error(t *testing.T) {
	db, f := open(t), table(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := inTx(ctx, db, func(tx *sql.Tx) error {
		cancel()
		return f.Present(ctx, tx, "account", 5)
	})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("got %v", err)
	}
	if got := stored(t, db, "account"); got != 0 {
		t.Errorf("fence %d is left behind", got)
	}
}

func TestPresent_badInput_namedInTheError(t *testing.T) {
	db, f := open(t), table(t)
	tx, err := db.Begin()
	must(t, err)
	defer tx.Rollback()
	for _, call := range []func(*fencesql.Fence, *sql.Tx, string, int64) error{
		func(f *fencesql.Fence, tx *sql.Tx, r string, token int64) error {
			return f.Present(t.Context(), tx, r, token)
		},
		func(f *fencesql.Fence, tx *sql.Tx, r string, token int64) error {
			return f.Check(t.Context(), tx, r, token)
		},
	} {
		for want, got := range map[string]error{
			"nil transaction":      call(f, nil, "account", 5),
			"not made by New":      call(&fencesql.Fence{}, tx, "account", 5),
			"made by New":          call(nil, tx, "account", 5),
			"empty resource":       call(f, tx, "", 5),
			"token 0 for":          call(f, tx, "account", 0),
			"token -3 for":         call(f, tx, "account", -3),
			"9007199254740992 for": call(f, tx, "account", 1<<53),
		} {
			if got == nil || !strings.Contains(got.Error(), want) {
				t.Errorf("want %q, got %v", want, got)
			}
		}
	}
	var none context.Context
	if err := f.Present(none, tx, "account", 5); err == nil || !strings.Contains(err.Error(), "nil context") {
		t.Error(err)
	}
	var rows int
	must(t, tx.QueryRow("SELECT COUNT(*) FROM redlock_fence").Scan(&rows))
	if rows != 0 {
		t.Errorf("%d rows were written before the input was refused", rows)
	}
}

// Several connections present different tokens to a resource without a row, all at once.
func TestPresent_concurrentFirstPresenters_largestWins(t *testing.T) {
	const presenters, resources = 6, 15
	db, f := open(t), table(t)
	for r := range resources {
		resource := fmt.Sprintf("resource-%d", r)
		errs := make([]error, presenters+1)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for token := 1; token <= presenters; token++ {
			wg.Go(func() {
				<-start
				errs[token] = present(t, db, f, resource, int64(token))
			})
		}
		close(start)
		wg.Wait()
		for token, err := range errs {
			var stale *fence.StaleError
			ok := errors.As(err, &stale)
			if err != nil && (!ok || stale.Seen <= int64(token)) || token == presenters && err != nil {
				t.Errorf("%s, token %d: %v", resource, token, err)
			}
		}
		if got := stored(t, db, resource); got != presenters {
			t.Errorf("%s: fence %d, want %d", resource, got, presenters)
		}
	}
}

// Both shapes of the package doc, by holders that really run at the same time: the final value is exactly what was acknowledged.
func TestFence_concurrentHolders_everyAcknowledgedUpdateKept(t *testing.T) {
	short := func(ctx context.Context, db *sql.DB, f *fencesql.Fence, token int64) error {
		var value string
		return inTx(ctx, db,
			func(tx *sql.Tx) error { return f.Present(ctx, tx, "a", token) },
			func(tx *sql.Tx) error { return readValue(tx, &value) },
			func(tx *sql.Tx) error { return writeValue(tx, value+"+") })
	}
	long := func(ctx context.Context, db *sql.DB, f *fencesql.Fence, token int64) error {
		var value string
		err := inTx(ctx, db,
			func(tx *sql.Tx) error { return f.Present(ctx, tx, "a", token) },
			func(tx *sql.Tx) error { return readValue(tx, &value) })
		if err != nil {
			return err
		}
		return inTx(ctx, db,
			func(tx *sql.Tx) error { return f.Check(ctx, tx, "a", token) },
			func(tx *sql.Tx) error { return writeValue(tx, value+"+") })
	}
	for name, update := range map[string]func(context.Context, *sql.DB, *fencesql.Fence, int64) error{"short": short, "long": long} {
		t.Run(name, func(t *testing.T) {
			db, f := openRegister(t), table(t)
			const holders, updates = 4, 25
			var mu sync.Mutex
			acknowledged, refused := 0, 0
			var wg sync.WaitGroup
			for h := range holders {
				wg.Go(func() {
					for u := range updates {
						err := update(t.Context(), db, f, int64(1+u*holders+h))
						mu.Lock()
						switch {
						case err == nil:
							acknowledged++
						case errors.Is(err, fence.ErrStale):
							refused++
						default:
							t.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			var value string
			must(t, readValue(db, &value))
			if len(value) != acknowledged || acknowledged == 0 {
				t.Errorf("%d updates acknowledged, %d kept", acknowledged, len(value))
			}
			t.Logf("%d acknowledged, %d refused", acknowledged, refused)
		})
	}
}

func openRegister(t *testing.T) *sql.DB {
	t.Helper()
	db := open(t)
	_, err := db.Exec("INSERT INTO account (id, owner, balance) VALUES ('a', '', '')")
	must(t, err)
	return db
}

func readValue(q interface {
	QueryRow(string, ...any) *sql.Row
}, value *string) error {
	return q.QueryRow("SELECT balance FROM account WHERE id = 'a'").Scan(value)
}

func writeValue(e interface {
	Exec(string, ...any) (sql.Result, error)
}, value string) error {
	_, err := e.Exec("UPDATE account SET balance = ? WHERE id = 'a'", value)
	return err
}

// register is a row of fencesql.SQLite, each step a transaction of its own.
type register struct {
	t  *testing.T
	db *sql.DB
	f  *fencesql.Fence
	// The fence's resource; a new one makes the register fresh without a new database.
	name string
}

func (r register) Present(token int64) error { return present(r.t, r.db, r.f, r.name, token) }

func (r register) Read() (value string, err error) { return value, readValue(r.db, &value) }

func (r register) Write(token int64, value string) error {
	return inTx(r.t.Context(), r.db,
		func(tx *sql.Tx) error { return r.f.Check(r.t.Context(), tx, r.name, token) },
		func(tx *sql.Tx) error { return writeValue(tx, value) })
}

func (r register) Overwrite(value string) error { return writeValue(r.db, value) }

func TestFence_randomInterleavings_noLostUpdate(t *testing.T) {
	db, f := openRegister(t), table(t)
	fencetest.Verify(t, 60, func(t *testing.T, run int) fencetest.Register {
		must(t, writeValue(db, ""))
		return register{t: t, db: db, f: f, name: fmt.Sprintf("%s-%d", t.Name(), run)}
	})
}

// The schedule of docs/safety.md 3.6, step by step, under the three protocols.
func TestFence_pausedHolder_onlyPresentBeforeReadKeepsTheUpdate(t *testing.T) {
	for protocol, want := range map[fencetest.Protocol]string{
		fencetest.NoFence:    "B wrote over A",
		fencetest.AtWrite:    "B wrote over A",
		fencetest.BeforeRead: "A was refused",
	} {
		t.Run(string(protocol), func(t *testing.T) {
			db := openRegister(t)
			r := register{t: t, db: db, f: table(t), name: "a"}
			read := func(token int64) string {
				if protocol == fencetest.BeforeRead {
					must(t, r.Present(token))
				}
				value, err := r.Read()
				must(t, err)
				return value
			}
			write := func(token int64, value string) error {
				if protocol == fencetest.NoFence {
					return r.Overwrite(value)
				}
				if protocol == fencetest.AtWrite {
					must(t, r.Present(token))
					return r.Overwrite(value)
				}
				return r.Write(token, value)
			}
			a := read(5) // and pauses
			b := read(6)
			errA := write(5, a+"A")
			must(t, write(6, b+"B"))
			value, err := r.Read()
			must(t, err)
			got := "both kept"
			switch {
			case errors.Is(errA, fence.ErrStale) && value == "B":
				got = "A was refused"
			case errA == nil && value == "B":
				got = "B wrote over A"
			}
			if got != want {
				t.Errorf("got %q (A: %v, value %q), want %q", got, errA, value, want)
			}
		})
	}
}
