// SPDX-License-Identifier: Apache-2.0

// Package redact takes users and passwords out of what is shown.
package redact

import (
	"regexp"
	"strings"
)

// URL removes user and password from a URL, even if the URL cannot be parsed.
func URL(rawURL string) string {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		scheme, rest = "", rawURL
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	rest = params(rest)
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

// Text does it in a text that may quote URLs. Whatever stands between the first and the last of them is lost: it may be a password.
func Text(s string) string {
	if strings.Contains(s, "://") {
		return URL(s)
	}
	return params(s)
}

func params(s string) string { return passwordParam.ReplaceAllString(s, "password=***") }

var passwordParam = regexp.MustCompile("(?is)password=.*")
