// SPDX-License-Identifier: Apache-2.0

// Package pagetest judges an HTML page about a run, for tests.
package pagetest

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Check fails unless the page is well-formed, loads nothing and fits.
func Check(t testing.TB, page string) {
	t.Helper()
	for _, bad := range []string{"http:", "https:", "//cdn", "@import", "url(", "ZgotmplZ", "<no value>", "NaN", "Inf", "%!"} {
		if i := strings.Index(page, bad); i >= 0 {
			t.Errorf("%q in the page: %s", bad, page[max(0, i-80):min(len(page), i+80)])
		}
	}
	if refs := regexp.MustCompile(`\s(?:src|href)="([^"#][^"]*)"`).FindAllString(page, 3); refs != nil {
		t.Errorf("refers to something else: %v", refs)
	}
	if bars := regexp.MustCompile(`<rect[^>]* (?:x|y|width|height)="-[^>]*>`).FindAllString(page, 3); bars != nil {
		t.Errorf("drawn beside the picture: %v", bars)
	}
	if len(page) > 3<<20 {
		t.Errorf("%d bytes", len(page))
	}
	wellFormed(t, page)
}

// void are the elements that HTML does not close.
var void = []string{"meta", "br"}

// wellFormed parses the page: every element is closed where it must be, and no id is there twice.
func wellFormed(t testing.TB, page string) {
	t.Helper()
	script := regexp.MustCompile(`(?s)(<(?:style|script)>).*?(</(?:style|script)>)`) // not markup inside
	d := xml.NewDecoder(strings.NewReader(script.ReplaceAllString(page, "$1$2")))
	d.Strict, d.Entity = false, xml.HTMLEntity
	var open []string
	ids := map[string]bool{}
	for {
		tok, err := d.RawToken() // Token would close what is left open, and say nothing
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("does not parse: %v", err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			if !slices.Contains(void, e.Name.Local) {
				open = append(open, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "id" && ids[a.Value] {
					t.Errorf("id %q twice", a.Value)
				} else if a.Name.Local == "id" {
					ids[a.Value] = true
				}
			}
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != e.Name.Local {
				t.Fatalf("</%s> closes %v", e.Name.Local, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("left open: %v", open)
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !ids[m[1]] {
			t.Errorf("no element for #%s", m[1])
		}
	}
}
