// SPDX-License-Identifier: Apache-2.0

package redact

import "testing"

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"":                                   "",
		"nothing to hide":                    "nothing to hide",
		"open /etc/a@b/masters: no file":     "open /etc/a@b/masters: no file",
		"want redis://host:port":             "want redis://host:port",
		`"redis://u:p@a:1" for "--ttl" flag`: `"redis://***@a:1" for "--ttl" flag`,
		"redis://:a b@c@d:1,rediss://:e@f:1 is no time":                 "redis://***@f:1 is no time",
		"redis-sentinel://h/m?sentinel_password=p for -x":               "redis-sentinel://h/m?sentinel_password=***",
		`bad URL "redis://h?password=***": unexpected option: password`: `bad URL "redis://h?password=***": unexpected option: password`,
		`"redis://h?password=***": and "redis://i?password=p": so`:      `"redis://h?password=***": and "redis://i?password=***`,
		`"redis://h?password=p\"q": so`:                                 `"redis://h?password=***`,
		"h/m?sentinel_PassWord=p\nq":                                    "h/m?sentinel_password=***",
		"redis-sentinel://u:p@h/m?sentinel_password=q@r&s":              "redis-sentinel://***@r&s",
	} {
		if got := Text(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
		if got := Text(Text(s)); got != want {
			t.Errorf("%q, twice: %q, want %q", s, got, want)
		}
	}
	if got := URL(":p@a:1"); got != "***@a:1" {
		t.Errorf("a URL without its scheme: %q", got)
	}
}

// A program that splits a list at the comma of a password gives its beginning as a URL without an @.
func TestURL_portIsNoNumber_nothingShown(t *testing.T) {
	for s, want := range map[string]string{
		"redis://locker:Tr0ub4":                                "redis://***",
		"redis://locker:Tr0:12/1":                              "redis://***",
		"redis-sentinel://a,locker:x/m":                        "redis-sentinel://***",
		"locker:Tr0ub4":                                        "***",
		"redis://localhost:99999/0?x=a:b":                      "redis://localhost:99999/0?x=a:b",
		"redis-cluster://a:1,[2001:db8::1]:2,[::1],b/?tag=x:y": "redis-cluster://a:1,[2001:db8::1]:2,[::1],b/?tag=x:y",
		"unix:///tmp/a:b.sock":                                 "unix:///tmp/a:b.sock",
	} {
		if got := URL(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
