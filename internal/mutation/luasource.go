// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
)

// luaTokens are what is exchanged in a line of Lua, each with what replaces it.
var luaTokens = []struct {
	pattern *regexp.Regexp
	after   string
}{
	{regexp.MustCompile(` == `), " ~= "},
	{regexp.MustCompile(` ~= `), " == "},
	{regexp.MustCompile(` < `), " <= "},
	{regexp.MustCompile(` <= `), " < "},
	{regexp.MustCompile(` > `), " >= "},
	{regexp.MustCompile(` >= `), " > "},
	{regexp.MustCompile(` and `), " or "},
	{regexp.MustCompile(` or `), " and "},
	{regexp.MustCompile(` \+ `), " - "},
	{regexp.MustCompile(` - `), " + "},
	{regexp.MustCompile(`\btrue\b`), "false"},
	{regexp.MustCompile(`\bfalse\b`), "true"},
	{regexp.MustCompile(`\bnot `), ""},
	{regexp.MustCompile(`\bmath\.max\b`), "math.min"},
	{regexp.MustCompile(`\bmath\.min\b`), "math.max"},
}

// luaStatement is a line that is one call, or one assignment to what is there before. It is deleted.
var luaStatement = regexp.MustCompile(`^\s*(?:\w+\([^{]*\)|[\w.\[\], ]+ = .*[^{(])$`)

// luaMutants lists the mutants of a Lua file. It reads tokens of single lines, which is enough for
// scripts with one statement a line.
func luaMutants(file string, source []byte) (found []mutant) {
	offset := 0
	for i, line := range strings.SplitAfter(string(source), "\n") {
		code, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "--") // without the comment
		add := func(after string) {
			found = append(found, mutant{file: file, line: i + 1, start: offset, end: offset + len(code), before: code, after: after})
		}
		for _, rule := range luaTokens {
			for _, at := range rule.pattern.FindAllStringIndex(code, -1) {
				add(code[:at[0]] + rule.after + code[at[1]:])
			}
		}
		if bare := strings.TrimRight(code, " "); luaStatement.MatchString(bare) && !strings.Contains(code, "local ") {
			add("")
		}
		offset += len(line)
	}
	return found
}
