// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/internal/text"
)

func (c *console) help(cmd command, fs *flag.FlagSet) {
	c.paragraph("usage: ", strings.TrimSpace("redlock-bench chaos "+cmd.name+" [--flag value ...] "+cmd.args))
	fmt.Fprintln(c.out)
	c.paragraph("", cmd.summary)
	fmt.Fprintln(c.out)
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if !slices.Contains([]string{"", "0", "0s", "false", "default"}, f.DefValue) { // the usage says what these mean
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		c.paragraph(fmt.Sprintf("  --%-18s ", strings.TrimSpace(f.Name+" "+value)), usage)
	})
	fmt.Fprintln(c.out, "\ncommands:")
	for _, cmd := range commands() {
		c.paragraph(fmt.Sprintf("  %-10s ", cmd.name), cmd.summary)
	}
	fmt.Fprintln(c.out)
	c.paragraph("exit code: ", "0 every promise held, 1 a promise was broken, 2 the command line is wrong, 3 nothing could be judged, or a file could not be written, 141 nobody reads the output")
}

// paragraph prints what is said behind a label, in lines that begin below one another.
func (c *console) paragraph(label, said string) {
	for _, line := range text.Wrap(said, text.LabelWidth+text.Width-len(label)) {
		fmt.Fprintln(c.out, label+line)
		label = strings.Repeat(" ", len(label))
	}
}

// verdict is what a checker says, in two lines.
func verdict(r check.Result) string {
	return fmt.Sprintf("%-17s %-8s %s\n   %s\n", r.ID, r.Verdict, r.Question, r.Summary)
}
