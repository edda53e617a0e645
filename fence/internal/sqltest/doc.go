// SPDX-License-Identifier: Apache-2.0

// Package sqltest tests fence/fencesql on SQLite. It is a module of its own, so that programs that use the lock need no database.
package sqltest
