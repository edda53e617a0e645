// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock on README and the pages has a command and flags that there are.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	pages.Check(t, "../..", "redlock", 100, func(args []string) (has func(string) bool, err error) {
		root, _ := newRoot(output{io.Discard, io.Discard})
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd()
		cmd, _, err := root.Find(args)
		if err == nil && cmd == root && !strings.HasPrefix(args[0], "-") {
			err = errors.New(args[0])
		}
		if err != nil {
			return nil, err
		}
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		return func(name string) bool {
			return cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil || len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil
		}, nil
	})
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```(?:console)?\n(.*?)^ *```$")
	stands = regexp.MustCompile(`(?ms)^ *(changing|no quorum|not this list|needs init|needs masters|recovering|too few vote): (.*?)(?:^ *[($#]|\z)`)
)

// What status prints on the runbooks, after its table, is a message that there is, from its beginning to its end. Where no quorum answers it has
// each master of the table.
func TestPages_samplesOfStatus_areItsMessages(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	var messages []string
	for _, m := range membership.Messages() {
		messages = append(messages, strings.TrimSuffix(m.Text+"; "+m.Remedy, "; "))
	}
	for _, v := range cause.Verdicts() {
		messages = append(messages, v.Text)
	}
	samples := 0
	for _, block := range fenced.FindAllStringSubmatch(string(page), -1) {
		for _, m := range stands.FindAllStringSubmatch(block[1], -1) {
			said := strings.Join(strings.Fields(m[2]), " ")
			samples++
			if !slices.ContainsFunc(messages, func(message string) bool {
				return strings.Contains(message, " ") && regexp.MustCompile("^"+filledIn.ReplaceAllString(regexp.QuoteMeta(message), ".+")+"$").MatchString(said)
			}) {
				t.Errorf("no message is %s: %s", m[1], said)
			}
			for _, row := range regexp.MustCompile(`(?m)^(\S+)  (votes)?`).FindAllStringSubmatch(block[1], -1) {
				if m[1] == "no quorum" && (row[2] == "") != strings.Contains(said, row[1]) { // who votes is not among the reasons
					t.Errorf("%s, %q: %s: %s", row[1], row[2], m[1], said)
				}
			}
		}
	}
	if samples < 10 {
		t.Errorf("%d samples", samples)
	}
}
