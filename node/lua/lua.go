// SPDX-License-Identifier: Apache-2.0

// Package lua holds the scripts that package node sends to a master, one in each file. Code
// that several scripts share, or that would make a script long, is a part in the folder
// parts: the line "-- @part NAME" in a script stands for the text of parts/NAME.lua.
// Each part is a function or a few, and says what else it uses; or it is a piece of the loop of
// votes.lua, and says what it leaves to the pieces behind it.
//
// It knows the files only, and imports nothing of this module. [Source] is for
// node/internal/wire, and for tests that recognise a script on the wire. To change where a
// vote is granted, see parts/contend.lua and parts/acquire.lua; where it is written, see
// parts/grant.lua; where it is released, see parts/release.lua.
package lua

import (
	"embed"
	"fmt"
	"regexp"
)

//go:embed *.lua parts/*.lua
var files embed.FS

var partLine = regexp.MustCompile(`(?m)^-- @part (\w+)\n`)

// Source returns the text of the script called name, with its parts in place, as it is
// sent to a master. It panics when there is no such script or part.
func Source(name string) string { return compose(read(name)) }

// compose puts the parts into text. A part may have parts of its own.
func compose(text string) string {
	return partLine.ReplaceAllStringFunc(text, func(line string) string {
		return compose(read("parts/" + partLine.FindStringSubmatch(line)[1]))
	})
}

func read(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("lua: %v", err))
	}
	return string(text)
}
