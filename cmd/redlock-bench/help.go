// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// overview is the help of the program.
func overview(table []entry) string {
	return `redlock-bench measures the lock on real Redis masters, yours or its own.

usage: redlock-bench [command] [--flag value ...]

` + list(table) + `
"redlock-bench COMMAND --help" explains a command, its flags and its figures.

Without --nodes it starts redis-server processes of its own: on loopback, on
free ports, without persistence, in a temporary directory. They end with it.

exit code: 0 fine, 1 a violation was seen or a --check failed, 2 usage,
3 masters not available, 73 the output cannot be written, 130 interrupted;
chaos has its own: redlock-bench chaos --help
`
}

// list is one line a command.
func list(table []entry) string {
	var b strings.Builder
	for _, e := range table {
		fmt.Fprintf(&b, "  %-11s %s\n", e.name, e.summary)
	}
	return b.String()
}

// manual is the help of one command.
func (e entry) manual(fs *flag.FlagSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "redlock-bench %s: %s\n\n%s\n", e.name, e.summary, e.help)
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  --%-17s %s", strings.TrimSpace(f.Name+" "+value), usage)
		if !slices.Contains([]string{"", "0", "0s", "false"}, f.DefValue) {
			fmt.Fprintf(&b, " (default %s)", f.DefValue)
		}
		b.WriteByte('\n')
	})
	return b.String()
}
