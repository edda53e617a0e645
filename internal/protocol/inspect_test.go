// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"
	"time"
)

func TestParseAnnouncement_whatStringWrites(t *testing.T) {
	for _, value := range []string{"", "http://10.0.0.7", "with a \x00 and \xff"} {
		a := Announcement{Field: "id:7", Token: 1<<53 - 1, Since: time.UnixMilli(1_700_000_000_123), Value: value}
		if got, ok := ParseAnnouncement(a.String()); !ok || got != a {
			t.Errorf("%q: %+v, %v", a, got, ok)
		}
	}
	for _, bad := range []string{"", "id:7", "id:7\x001\x002", "id:7\x00x\x002\x00v", "id:7\x001\x00x\x00v", "id:7\x000\x002\x00v", "id:7\x00-1\x002\x00v"} {
		if got, ok := ParseAnnouncement(bad); ok || got != (Announcement{}) {
			t.Errorf("%q: %+v, %v", bad, got, ok)
		}
	}
}

// A client tells by its own channel whether it hears the master at all.
func TestIsWake_observed_isNone(t *testing.T) {
	for channel, want := range map[string]bool{Wake("0123"): true, NewLock("x", Plain).Observed(): false, NewLock("{x}y", Plain).Observed(): false,
		Namespace("a").Wake("0123"): true, Namespace("a").Lock("x", Plain).Observed(): false, "other": false} {
		if IsWake(channel) != want {
			t.Error(channel)
		}
	}
}
