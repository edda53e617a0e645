// SPDX-License-Identifier: Apache-2.0

//go:build zoo

package nodetest

import "strings"

// The scripts that package node breaks for the zoo, found by their first line as all are.
func init() {
	scripts["-- Zoo: confirm.lua without its owner check."] = script{"confirm", confirmForAll}
	scripts["-- Zoo: extend.lua that creates."] = script{"extend", extendOrCreate}
}

// confirmForAll is confirm without the owner check.
func confirmForAll(db *DB, keys, argv []string) any {
	gate, _ := db.HGet(keys[1], "gate")
	count, _ := db.HGet(keys[1], argv[2])
	if gate != argv[1] {
		return gateError(db, gate)
	}
	if number(count) < number(argv[3]) {
		db.HSet(keys[1], argv[2], argv[3])
	}
	return 1
}

// extendOrCreate is extend that puts a vote where there is none.
func extendOrCreate(db *DB, keys, argv []string) any {
	gate, _ := db.HGet(keys[0], "gate")
	if gate != argv[1] && !strings.HasPrefix(gate, argv[2]) {
		return gateError(db, gate)
	}
	for i, lock := range keys[1:] {
		if db.Exists(lock) == 0 {
			db.HSet(lock, argv[3*i+3], "1")
		}
	}
	return extend(db, keys, argv)
}
