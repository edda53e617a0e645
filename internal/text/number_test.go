// SPDX-License-Identifier: Apache-2.0

package text

import "testing"

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.00", 1.234: "1.23", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100",
		999.4: "999", 999.6: "1,000", 12345: "12,345", 1234567: "1,234,567",
	} {
		if got := Number(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
	if got := Optional(nil); got != "n/a" {
		t.Errorf("nothing: %q", got)
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 1.234: "1.23", 9.996: "10.0", 99.96: "100", 999.4: "999", 999.6: "1.00k", 12_345: "12.3k", 123_456: "123k", 1.5e6: "1.50M", 60e6: "60.0M", 3e9: "3.00G"} {
		if got := Short(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
