// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testbed

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestProcessor_work_costsTime(t *testing.T) {
	own, used := Own(), Used([]int{os.Getpid()})
	for Own()-own < 30*time.Millisecond {
	}
	if runtime.GOOS == "linux" {
		if spent := Used([]int{os.Getpid()}) - used; spent < 10*time.Millisecond {
			t.Errorf("30 ms of work cost %v", spent)
		}
	}
}
