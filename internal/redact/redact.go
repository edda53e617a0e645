// SPDX-License-Identifier: Apache-2.0

// Package redact takes users and passwords out of what is shown.
package redact

import (
	"regexp"
	"strings"
)

// URL removes user and password from a URL, even if the URL cannot be parsed. Where no @ shows what they are and a port is no number,
// nothing is left: it may be what is before a comma in a password, in a list that was split at its commas.
func URL(rawURL string) string {
	_, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		rest = rawURL
	}
	if !strings.Contains(rest, "@") && !hosts(rest) {
		return strings.TrimSuffix(rawURL, rest) + "***"
	}
	return user(rawURL, params)
}

// hosts reports whether rest, which is what follows ://, begins with hosts whose ports are numbers.
func hosts(rest string) bool {
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	for host := range strings.SplitSeq(rest, ",") {
		if !hostAndPort.MatchString(host) {
			return false
		}
	}
	return true
}

var hostAndPort = regexp.MustCompile(`^(\[[^]]*\]|[^:]*)(:[0-9]*)?$`)

// Text does it in a text that may quote URLs. Whatever stands between the first and the last of them is lost: it may be a password. What follows
// a URL that [URL] made, and that stands in quotes, is kept.
func Text(s string) string {
	if strings.Contains(s, "://") {
		return user(s, unhidden)
	}
	return unhidden(s)
}

// user removes what is between :// and the last @, and the parameters that are passwords.
func user(s string, params func(string) string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
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

// unhidden is params of what is not hidden yet. A quote within a URL that is quoted has a backslash before it, so no password begins so.
func unhidden(s string) string {
	return hiddenOrNot.ReplaceAllStringFunc(s, func(param string) string {
		if param == hidden {
			return param
		}
		return "password=***"
	})
}

const hidden = `password=***"`

var hiddenOrNot = regexp.MustCompile("(?is)" + regexp.QuoteMeta(hidden) + "|password=.*")

func params(s string) string { return passwordParam.ReplaceAllString(s, "password=***") }

var passwordParam = regexp.MustCompile("(?is)password=.*")

// Param reports whether name may be shown as that of a parameter of a URL. What follows a ? in a password would be taken for one.
func Param(name string) bool { return paramName.MatchString(name) }

var paramName = regexp.MustCompile("^[a-z_]{1,32}$")
