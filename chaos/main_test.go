// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/client"
)

func TestMain(m *testing.M) {
	if bad := badClients[os.Getenv(badVar)]; bad != nil && client.Started() {
		client.Main(bad)
	}
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
