// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"path/filepath"
	"testing"
)

// A member that does not start is an error, and what was there before it is gone.
func TestStart_memberDoesNotStart_nothingIsLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", tmp)
	if _, err := Start(t.Context()); err == nil {
		t.Error("started without a program")
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
