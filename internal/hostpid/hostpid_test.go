// SPDX-License-Identifier: Apache-2.0

package hostpid

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestName_isHostAndPID(t *testing.T) {
	if !strings.HasSuffix(Name(), "/"+strconv.Itoa(os.Getpid())) || strings.HasPrefix(Name(), "/") {
		t.Errorf("%q", Name())
	}
	if n := testing.AllocsPerRun(100, func() { Name() }); n != 0 {
		t.Errorf("%v allocations: it is not made once", n)
	}
}

// A label is 1 to 128 bytes of printable ASCII without spaces.
func TestName_anyHost_isALabel(t *testing.T) {
	for host, want := range map[string]string{
		"pod-7":                  "pod-7/12",
		"":                       "unknown/12",
		"my host\n":              "my_host_/12",
		"käse":                   "k_se/12",
		"\xff\xfe":               "__/12",
		strings.Repeat("h", 255): strings.Repeat("h", 100) + "/12",
	} {
		if got := name(host, 12); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	if got := name(strings.Repeat("é", 255), math.MaxInt); len(got) > 128 {
		t.Errorf("%d bytes", len(got))
	}
}
