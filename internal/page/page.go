// SPDX-License-Identifier: Apache-2.0

// Package page is the look of the HTML pages about runs: their style, their script, and pictures as rows of SVG. A page needs no network and no
// other file, is readable without its script, in light and in dark, at 400 and at 2000 pixels.
package page

import (
	_ "embed"
	"html/template"
)

//go:embed style.css
var styleCSS string

//go:embed script.js
var scriptJS string

//go:embed parts.html
var partsHTML string

// Style is the style of every page.
func Style() template.CSS { return template.CSS(styleCSS) }

// Script is the script of every page: one cursor for all pictures that share an axis of time.
func Script() template.JS { return template.JS(scriptJS) }

// Template parses a page. It begins with {{template "begin" .}} and ends with {{template "end" .}}: its data has Style, Script, Title and Verdict. In
// between it may use {{template "figure" F}}, F a [Figure].
func Template(html string) *template.Template {
	return template.Must(template.Must(template.New("page").Parse(partsHTML)).Parse(html))
}

// Verdict is what a page says first.
type Verdict struct {
	Class string // "ok", "illegal" or "unknown"
	Head  string
	Lines []string
}

// Fact is a name and a value, both ready to be shown.
type Fact struct{ Name, Value string }
