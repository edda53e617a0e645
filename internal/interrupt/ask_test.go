// SPDX-License-Identifier: Apache-2.0

package interrupt

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

func TestConfirmed(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "": false, "no\n": false, "n\n": false, "yet\n": false} {
		var b bytes.Buffer
		if Confirmed(t.Context(), strings.NewReader(answer), &b, "Go on? ") != want || b.String() != "Go on? " {
			t.Errorf("%q is taken as %v, and it said %q", answer, !want, &b)
		}
	}
}

// An interruption ends the question, and is a no.
func TestConfirmed_interrupted_no(t *testing.T) {
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	if Confirmed(ctx, in, &b, "Go on? ") || b.String() != "Go on? \n" {
		t.Errorf("a yes, and it said %q", &b)
	}
}
