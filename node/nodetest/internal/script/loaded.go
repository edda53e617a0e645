// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"strconv"
	"strings"
)

// Loaded are the scripts that a master has, by SHA-1.
type Loaded map[string]*Script

// Load is SCRIPT LOAD, and returns its reply. It keeps the script for ever, or edit of it in its place, unless edit is nil.
// A restart need not forget scripts, because a node loads them on each new connection. To test a forgotten
// script, refuse a call with NOSCRIPT.
func (l Loaded) Load(text string, edit func(text string) string) any {
	s, err := Compile(text)
	runs := s
	if err == nil && edit != nil {
		runs, err = Compile(edit(text))
	}
	if err != nil {
		return err
	}
	l[s.sha] = runs
	return s.sha
}

// Called returns the script that words call by EVAL or EVALSHA, or nil if they call none.
func (l Loaded) Called(words []string) (s *Script, keys, argv []string, err error) {
	switch strings.ToLower(words[0]) {
	case "eval":
		if len(words) > 2 {
			s, err = Compile(words[1])
		}
	case "evalsha":
		if len(words) > 2 {
			s = l[words[1]]
		}
		if s == nil {
			err = errors.New("NOSCRIPT No matching script")
		}
	}
	if s == nil {
		return nil, nil, nil, err
	}
	n, err := strconv.Atoi(words[2])
	if err != nil || n < 0 || n > len(words)-3 {
		return nil, nil, nil, errors.New("ERR value is not an integer or out of range")
	}
	return s, words[3 : 3+n], words[3+n:], nil
}

// Act is what a call of the script does: the name of its file in node/lua, but of votes.lua "acquire" if an op of
// the call may be granted, else "release". It is empty for any other script.
func (s *Script) Act(argv []string) string {
	if s.name != "votes" {
		return s.name
	}
	const header, stride = 5, 4 // as in votes.lua
	raises, _ := strconv.Atoi(argv[0])
	for i := header + 2*raises; i < len(argv); i += stride {
		switch argv[i] {
		case "acquire", "join", "barge", "retry", "oust", "again":
			return "acquire"
		}
	}
	return "release"
}
