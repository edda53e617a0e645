// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/workload"
)

func TestMain(m *testing.M) {
	workload.Serve() // this binary is also the clients'
	logging.Disable()
	goleak.VerifyTestMain(m)
}
