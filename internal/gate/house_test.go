// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/gate/scan"
	"github.com/redlock-go/redlock/internal/needs"
)

// The sizes of a room, without tests. What is larger has a second room inside.
const (
	packageLines  = 1500
	fileLines     = 400
	functionLines = 60
	// A struct with more fields than fieldsMost may have boolsMost flags: more of them are states that want a name.
	fieldsMost, boolsMost = 12, 3
)

// larger are the places that are larger, each with the reason. A place that is larger no more does not stay in the list.
var larger = map[string]string{
	"chaos":                              "the harness: clusters, nemeses, histories and checkers are out, and what is left is one run step by step",
	"cmd/redlock":                        "eleven commands with what they say; their tests use one process, and their flags one list of masters",
	"internal/membership":                "one pure machine: its states, its rules, its words and its records are read together",
	"internal/membership/view.go Master": "what a look has seen of one master: the flags are facts, and not states",
	"internal/sim":                       "one world with all acts and faults: two halves would need each other's state",
	"internal/sim/sim.go Config":         "what a world may do: each flag is an act or a fault",
	"node":                               "one master's lane, its connection and its greeting: one goroutine's state",
	"node/redisnode.go redisNode":        "one master's lane: its fields are what one goroutine works with",
	"redlock":                            "the face: half of it is documentation of public names",
	"redlock/options.go settings":        "settings: each flag says that an option was given",
}

func TestHouse_roomsAreSmall(t *testing.T) {
	found := map[string]string{} // what is too large, by its place
	packages := map[string]int{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		lines := bytes.Count(source, []byte("\n"))
		packages[filepath.ToSlash(filepath.Dir(name))] += lines
		if lines > fileLines {
			found[name] = fmt.Sprintf("%d lines, more than %d", lines, fileLines)
		}
		return sizesOf(name, source, found)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range packages {
		if lines > packageLines {
			found[name] = fmt.Sprintf("%d lines, more than %d", lines, packageLines)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(found)) {
		if larger[place] == "" {
			t.Errorf("%s: %s", place, found[place])
		}
	}
	for _, place := range slices.Sorted(maps.Keys(larger)) {
		if found[place] == "" {
			t.Errorf("%s is small enough now: take it off the list", place)
		}
	}
}

// A test that needs the tier of .ci/run, or does more there, is in a stage that has it: elsewhere it skips, and nobody misses it.
func TestHouse_everyTestOfCI_isInAStage(t *testing.T) {
	t.Setenv(needs.RequireVar, "")
	g, err := open(io.Discard)
	must(t, err)
	groups, err := g.ciStages()
	must(t, err)
	all := slices.Concat(groups...)
	for _, f := range g.tests {
		runs := func(s stage) bool {
			return slices.ContainsFunc(s.commands, func(c command) bool { return g.runs(c, f, needs.TierCI) })
		}
		if f.Calls("CI", "Java", "Server", "At") && !f.Calls("Soak") && !slices.ContainsFunc(all, runs) {
			t.Errorf("%s of %s needs the tier of .ci/run, and no stage of that runs it", f.Name, f.Path())
		}
	}
}

// A test of the root is in a stage that builds its file and in whose tier it does not skip.
func TestHouse_everyTest_isInAStage(t *testing.T) {
	t.Setenv(needs.RequireVar, "")
	g, err := open(io.Discard)
	must(t, err)
	ci, err := g.ciStages()
	must(t, err)
	var all []command
	for _, s := range slices.Concat(slices.Concat(g.testStages(), ci)...) {
		all = append(all, s.commands...)
	}
	for _, p := range g.soakParts(time.Hour, t.TempDir()) {
		all = append(all, p.command)
	}
	for _, f := range g.tests {
		tier := needs.TierTest
		switch {
		case f.Calls("Soak"):
			tier = needs.TierSoak
		case f.Calls("CI", "Java", "Server"):
			tier = needs.TierCI
		}
		if root(f) && f.Tags != scan.Elsewhere && !slices.ContainsFunc(all, func(c command) bool { return g.runs(c, f, tier) }) {
			t.Errorf("no stage runs %s of %s, with the tags %q in the tier %s or above", f.Name, f.Path(), f.Tags, tier)
		}
	}
}

// runs reports whether c runs f in a tier from that one on, and f does not skip there.
func (g *gate) runs(c command, f scan.Test, from needs.Tier) bool {
	flag := func(name string) (value string) {
		if i := slices.Index(c.args, name); i >= 0 {
			value = c.args[i+1]
		}
		return value
	}
	inTier := func(env string) bool {
		name, value, _ := strings.Cut(env, "=")
		tier, err := needs.ParseTier(value)
		return name == needs.TierVar && err == nil && tier >= from
	}
	dir := filepath.Join(g.root, f.Module)
	return slices.Contains(c.args, "test") && slices.ContainsFunc(c.env, inTier) &&
		(c.dir == dir || c.dir == "" && dir == g.root) &&
		(slices.Contains(c.args, f.Pkg) || slices.Contains(c.args, "./...")) &&
		flag("-tags") == f.Tags && !(f.Calls("NoRace") && slices.Contains(c.args, "-race")) &&
		regexp.MustCompile(flag("-run")).MatchString(f.Name)
}

// sizesOf adds the functions and structs of a file that are too large to found.
func sizesOf(name string, source []byte, found map[string]string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if lines := files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1; lines > functionLines {
				found[name+" "+n.Name.Name] = fmt.Sprintf("%d lines, more than %d", lines, functionLines)
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				if fields, flags := fieldsOf(s); fields > fieldsMost && flags > boolsMost {
					found[name+" "+n.Name.Name] = fmt.Sprintf("%d fields, %d of them flags", fields, flags)
				}
			}
		}
		return true
	})
	return nil
}

// fieldsOf counts the fields of a struct, and how many of them are flags.
func fieldsOf(s *ast.StructType) (fields, flags int) {
	for _, f := range s.Fields.List {
		n := max(len(f.Names), 1)
		fields += n
		if id, ok := f.Type.(*ast.Ident); ok && id.Name == "bool" {
			flags += n
		}
	}
	return fields, flags
}
