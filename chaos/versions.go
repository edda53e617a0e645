// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"maps"
	"runtime"

	"github.com/redlock-go/redlock/chaos/workload"
)

// versions adds the versions of Go and of this library to those of the masters, for the history.
func versions(masters map[string]string) map[string]string {
	vs := map[string]string{"go": runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, "redlock": workload.Revision()}
	maps.Copy(vs, masters)
	return vs
}
