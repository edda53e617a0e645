// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"strings"
)

// suite is one go test that a mutant is tried with.
type suite []string

var (
	// The simulations need no server and no real time, so a mutant is tried with them first.
	simulations = suite{"-run", "^TestSim", "./redlock"}
	locks       = suite{"./redlock"}
	several     = suite{"./multilock"}
	// Each run of the scripts' model in memory: replies, messages and keys.
	model = suite{"-run", "^TestScripts_inMemory", "./internal/model/votesmodel"}
)

// areas are the folders whose files are mutated, each with the suites that judge them, the quick ones first.
var areas = map[string][]suite{
	"redlock":                 {simulations, locks, several},
	"internal/lock/counting":  {own, simulations, locks},
	"internal/lock/attempt":   {simulations, locks},
	"internal/lock/grant":     {own, {"./internal/lock/hold"}, simulations, locks},
	"internal/lock/hold":      {own, simulations, locks},
	"internal/lock/inspect":   {locks},
	"internal/lock/cluster":   {locks},
	"internal/lock/voucher":   {locks},
	"internal/lock/quorum":    {own, simulations, locks},
	"internal/masters":        {own, simulations, locks},
	"internal/masters/driver": {{"./internal/masters"}, simulations, locks},
	"internal/lock/wait":      {own, simulations, locks},
	"internal/lock/waiting":   {own, {"./internal/model/waiting"}, simulations, locks},
	"internal/membership":     {own, simulations, {"./internal/model/membershipmodel"}, locks},
	"node":                    {own, simulations, locks},
	"node/internal/wire":      {own, simulations, {"./node"}, locks},
	"node/internal/unacked":   {own, simulations, {"./node"}, locks},
	"node/internal/locate":    {own, {"./node"}, locks},
	"node/lua":                {{"./node/internal/wire", "./node/nodetest"}, model, simulations, {"./node"}, locks},
	"node/lua/parts":          {{"./node/internal/wire", "./node/nodetest"}, model, simulations, {"./node"}, locks},
}

// own stands for the tests of the package that the file is in.
var own = suite{"own"}

// suitesOf are the suites that judge file.
func suitesOf(file string) []suite {
	var all []suite
	for _, s := range areas[path.Dir(file)] {
		if s[0] == own[0] {
			s = suite{"./" + path.Dir(file)}
		}
		all = append(all, s)
	}
	return all
}

// mutated says whether file is one that mutants are made of. What only tells, or only another build
// has, is not.
func mutated(file string) bool {
	name := path.Base(file)
	switch {
	case strings.HasSuffix(name, ".lua"):
		return name != "check.lua" // tries an operator's rights, and is no part of a lock
	case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
		return false
	}
	return name != "doc.go" && name != "mutants.go" && name != "stats.go" && !strings.HasPrefix(name, "hangup_")
}
