// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Serve() // this binary is also the clients' and the reaper's
	logging.Disable()
	if order := os.Getenv(operatorVar); order != "" {
		operate(order)
	}
	if driver, end, ok := strings.Cut(os.Getenv(doomedVar), ","); ok {
		doomed(driver, end)
	}
	goleak.VerifyTestMain(m)
}
