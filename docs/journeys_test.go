// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stations is a line of a journey in internals/architecture.md: a room, and files of it with the function by which the journey enters each.
var stations = regexp.MustCompile(`(?m)^ ([a-z0-9/-]+) +([a-z0-9_]+\.go .+(?:\n {20,}.+)*)$`)

// Every station of a journey is in the code.
func TestArchitecture_journeys_stationsExist(t *testing.T) {
	page, err := os.ReadFile("internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Journeys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	seen := 0
	for _, m := range stations.FindAllStringSubmatch(section, -1) {
		for _, station := range strings.Split(m[2], ";") {
			words := strings.Fields(station)
			if len(words) != 2 {
				t.Errorf("%s: want a file and a function: %q", m[1], station)
				continue
			}
			source, err := os.ReadFile(filepath.Join("..", m[1], words[0]))
			if err != nil {
				t.Error(err)
				continue
			}
			head := `func `
			kind, name, method := strings.Cut(words[1], ".")
			if method {
				head += `\(\w* ?\*?` + kind + `(\[\w+\])?\) `
			} else {
				name = kind
			}
			if !regexp.MustCompile(`(?m)^` + head + name + `[(\[]`).Match(source) {
				t.Errorf("%s/%s has no %s", m[1], words[0], words[1])
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("only %d stations", seen)
	}
}
