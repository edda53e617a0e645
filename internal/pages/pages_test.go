// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"reflect"
	"testing"
)

func TestRead_commands_asTheyAreTyped(t *testing.T) {
	page := "Call `redlock status --wait 5s | head` or `REDLOCK_TIER=ci go test -run 'A|B' ./x`, not `redlock: a word`, `redlock.Lock` or `redlock`.\n" +
		"\n1. so:\n\n   ```sh\n   $ redlock init \\\n       --nodes 'a b'   # a remark\n   redlock  aligned\n   ```\n\n```go\nmake sure\n```\n\n```\nmake test N=3\nredlock run x -- y --z\n```\n"
	var got [][]string
	lines := []int{}
	for _, c := range read(page) {
		got = append(got, c.Words)
		lines = append(lines, c.Line)
	}
	want := [][]string{
		{"redlock", "status", "--wait", "5s"}, {"go", "test", "-run", "A|B", "./x"}, {"redlock", "init", "--nodes", "a b"},
		{"make", "test", "N=3"}, {"redlock", "run", "x", "--", "y", "--z"},
	}
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(lines, []int{1, 1, 6, 16, 17}) {
		t.Errorf("got %q in lines %v, want %q", got, lines, want)
	}
}

func TestCommand_args_byNameAndByGoRun(t *testing.T) {
	for _, words := range [][]string{
		{"redlock", "status", "[--wait]", "--json=x", "--", "--not"},
		{"go", "run", "-tags", "x", "github.com/redlock-go/redlock/cmd/redlock@latest", "status", "[--wait]", "--json=x", "--", "--not"},
	} {
		args, ok := Command{Words: words}.args("redlock")
		if !ok || args[0] != "status" || !reflect.DeepEqual(flags(args), []string{"wait", "json"}) {
			t.Errorf("%q: %q, flags %q", words, args, flags(args))
		}
		if _, ok := (Command{Words: words}).args("redlock-bench"); ok {
			t.Errorf("%q is no redlock-bench", words)
		}
	}
}
