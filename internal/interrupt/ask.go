// SPDX-License-Identifier: Apache-2.0

package interrupt

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Confirmed asks a question at a terminal, and says whether a yes was typed. An end of the input, and of ctx, is a no.
func Confirmed(ctx context.Context, in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() { // it ends with the program: a read of a terminal cannot be ended
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes"
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false
	}
}
