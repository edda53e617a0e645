// SPDX-License-Identifier: Apache-2.0

package script

import "testing"

// What scripts leave behind is not there for the next one.
func TestScript_keys_areNotShared(t *testing.T) {
	run := func(text string, keys ...string) any {
		s, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		return s.Run(nil, keys, nil)
	}
	run("KEYS[5] = 'left'", "a", "b")
	if got := run("return #KEYS"); got != int64(0) {
		t.Error(got)
	}
}
