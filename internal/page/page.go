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

//go:embed figure.html
var figureHTML string

// Style is the style of every page.
func Style() template.CSS { return template.CSS(styleCSS) }

// Script is the script of every page: one cursor for all pictures that share an axis of time.
func Script() template.JS { return template.JS(scriptJS) }

// Template parses a page that may use {{template "figure" F}}, F a [Figure].
func Template(html string) *template.Template {
	return template.Must(template.Must(template.New("page").Parse(figureHTML)).Parse(html))
}

// Fact is a name and a value, both ready to be shown.
type Fact struct{ Name, Value string }
