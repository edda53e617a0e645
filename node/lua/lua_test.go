// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Every part is used, every script begins with its own name, and none has a part left out.
func TestSource_everyScript_isWhole(t *testing.T) {
	scripts, err := fs.Glob(files, "*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	var all strings.Builder
	for _, file := range scripts {
		text := Source(strings.TrimSuffix(file, ".lua"))
		if !strings.HasPrefix(text, "-- "+file+": ") {
			t.Errorf("%s does not begin with its name, by which nodetest knows it", file)
		}
		if strings.Contains(text, "@part") {
			t.Errorf("%s: a part is missing", file)
		}
		// tostring and .. print a number of 1e15 or more as 1e+15: tokens and tickets must never be text made so.
		if regexp.MustCompile(`\btostring\(`).MatchString(text) {
			t.Errorf("%s calls tostring", file)
		}
		all.WriteString(text)
	}
	parts, _ := fs.Glob(files, "parts/*.lua")
	for _, file := range parts {
		if text := compose(read(strings.TrimSuffix(file, ".lua"))); !strings.Contains(all.String(), text) {
			t.Errorf("no script has %s", file)
		}
	}
}
