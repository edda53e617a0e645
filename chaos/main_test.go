// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Serve() // this binary is also the clients' and the reaper's
	logging.Disable()
	goleak.VerifyTestMain(m)
}
