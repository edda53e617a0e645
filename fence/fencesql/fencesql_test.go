// SPDX-License-Identifier: Apache-2.0

package fencesql

import (
	"strings"
	"testing"
)

// What needs a database is tested in ../internal/sqltest, on SQLite.

func TestNew_badConfig_namedInTheError(t *testing.T) {
	for want, cfg := range map[string]Config{
		`Config.Dialect 0`:                 {},
		`Config.Dialect 4`:                 {Dialect: 4},
		`Config.Table "fence; DROP TABLE"`: {Dialect: SQLite, Table: "fence; DROP TABLE"},
		`Config.Table "a.b"`:               {Dialect: SQLite, Table: "a.b"},
		`Config.Key "1a"`:                  {Dialect: SQLite, Key: "1a"},
		`Config.Column "fénce"`:            {Dialect: SQLite, Column: "fénce"},
		`Config.Column "fence\n"`:          {Dialect: SQLite, Column: "fence\n"},
		`Config.Column "a?"`:               {Dialect: PostgreSQL, Column: "a?"},
	} {
		if f, err := New(cfg); err == nil || f != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

// The statements of the databases that do not run here.
func TestNew_dialects_statements(t *testing.T) {
	f, err := New(Config{Dialect: PostgreSQL, Table: "t", Key: "k", Column: "c"})
	if err != nil {
		t.Fatal(err)
	}
	want := Fence{
		raise:   "UPDATE t SET c = $1 WHERE k = $2 AND c <= $3",
		confirm: "UPDATE t SET c = $1 WHERE k = $2 AND c = $3",
		insert:  "INSERT INTO t (k, c) VALUES ($1, 0) ON CONFLICT (k) DO NOTHING",
		seen:    "SELECT c FROM t WHERE k = $1 FOR UPDATE",
	}
	if *f != want {
		t.Errorf("PostgreSQL: %+v", *f)
	}
	f, err = New(Config{Dialect: MySQL, Table: "TABLE_KEY", Key: "COLUMN", Column: "KEY"}) // names of our own placeholders
	if err != nil {
		t.Fatal(err)
	}
	want = Fence{
		raise:   "UPDATE TABLE_KEY SET KEY = ? WHERE COLUMN = ? AND KEY <= ?",
		confirm: "UPDATE TABLE_KEY SET KEY = ? WHERE COLUMN = ? AND KEY = ?",
		insert:  "INSERT INTO TABLE_KEY (COLUMN, KEY) VALUES (?, 0) ON DUPLICATE KEY UPDATE COLUMN = COLUMN",
		seen:    "SELECT KEY FROM TABLE_KEY WHERE COLUMN = ? FOR UPDATE",
	}
	if *f != want {
		t.Errorf("MySQL: %+v", *f)
	}
}
