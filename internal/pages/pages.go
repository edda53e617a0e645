// SPDX-License-Identifier: Apache-2.0

// Package pages reads the commands that README and the pages of docs have people type, so that tests can hold them against the programs.
package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Command is a command on a page.
type Command struct {
	Page  string // relative to the root
	Line  int
	Words []string // as a shell splits them: without variables before and anything behind that is not its arguments
}

func (c Command) String() string {
	return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, strings.Join(c.Words, " "))
}

// args are the arguments of the program called name, if the command runs it: by its name, or by go run of the package in a folder of that name.
func (c Command) args(name string) ([]string, bool) {
	words := c.Words
	if len(words) > 2 && words[0] == "go" && words[1] == "run" {
		for words = words[2:]; len(words) > 0; words = words[1:] {
			folder, _, _ := strings.Cut(words[0], "@")
			if strings.HasSuffix(folder, "/cmd/"+name) {
				return words[1:], true
			}
		}
		return nil, false
	}
	if len(words) > 0 && words[0] == name {
		return words[1:], true
	}
	return nil, false
}

// Check looks up each command line of the program called name that is on a page of the repository at root. find is told its arguments. It returns whether
// the command that they name has a flag, or an error if there is no such command, or nil if the command lines of that command are looked up elsewhere.
// There must be least of them.
func Check(t testing.TB, root, name string, least int, find func(args []string) (has func(flag string) bool, err error)) {
	t.Helper()
	all, err := Commands(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		args, ok := c.args(name)
		if !ok {
			continue
		}
		has, err := find(args)
		if err != nil {
			t.Errorf("%v: no such command: %v", c, err)
		}
		if has == nil {
			continue
		}
		least--
		for _, flag := range flags(args) {
			if !has(flag) {
				t.Errorf("%v: there is no flag --%s", c, flag)
			}
		}
	}
	if least > 0 {
		t.Errorf("%d command lines too few were found", least)
	}
}

// flags are the names of the flags in args, up to the first "--".
func flags(args []string) (names []string) {
	for _, word := range args {
		if word == "--" {
			break
		}
		if name, ok := strings.CutPrefix(strings.TrimLeft(word, "["), "-"); ok {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
			names = append(names, strings.TrimRight(name, "]"))
		}
	}
	return names
}

var (
	fence  = regexp.MustCompile("^( *)```(\\w*)$")
	inline = regexp.MustCompile("`([^`]+)`")
	typed  = regexp.MustCompile(`^(?:[A-Z_]+=\S* )*(?:(?:redlock|redlock-bench) [a-z-]|make [a-z]|go (?:-C \S+ )?(?:test|run|build) )`)
)

// Commands are the commands of this project on README, CONTRIBUTING and the pages of docs in the repository at root: redlock, redlock-bench, make, and go
// test, run and build.
func Commands(root string) (all []Command, err error) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/internals/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		page, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		for _, c := range read(string(text)) {
			c.Page = filepath.ToSlash(page)
			all = append(all, c)
		}
	}
	return all, nil
}

// read finds the commands of a page.
func read(page string) (all []Command) {
	add := func(line int, text string) {
		if typed.MatchString(text) {
			all = append(all, Command{Line: line, Words: split(text)})
		}
	}
	lines := strings.Split(page, "\n")
	inside, shell, indent := false, false, ""
	for i := 0; i < len(lines); i++ {
		line, at := lines[i], i+1
		if m := fence.FindStringSubmatch(line); m != nil {
			inside, indent = !inside, m[1]
			shell = m[2] == "" || m[2] == "sh"
			continue
		}
		if !inside {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				add(at, m[1])
			}
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(lines[i])
		}
		if shell {
			add(at, strings.TrimPrefix(strings.TrimPrefix(line, indent), "$ "))
		}
	}
	return all
}

// split splits a command as a shell does, drops the variables before it, and ends where the command does.
func split(text string) (words []string) {
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun && (len(words) > 0 || !strings.Contains(word.String(), "=")) {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			end()
		case quote == 0 && strings.ContainsRune("|;&><#", r) && (r != '#' || !begun):
			end()
			return words
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return words
}
