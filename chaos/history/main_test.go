// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// printNow makes the test binary print Now and nothing else.
const printNow = "HISTORY_TEST_PRINT_NOW"

func TestMain(m *testing.M) {
	if os.Getenv(printNow) != "" {
		fmt.Print(Now())
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
