// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"maps"
	"runtime"

	"github.com/redlock-go/redlock/chaos/workload"
)

// versions is what was tested, for the record: these and of what the masters run in.
func versions(masters map[string]string) map[string]string {
	vs := map[string]string{"go": runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, "redlock": workload.Revision()}
	maps.Copy(vs, masters)
	return vs
}
