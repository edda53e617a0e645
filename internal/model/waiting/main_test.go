// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // there is much garbage, and little else
	os.Exit(m.Run())
}
