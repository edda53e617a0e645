// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a client on masters in memory.
func open(t *testing.T) *redlock.Client {
	c, _ := redlocktest.New(t)
	return c
}
