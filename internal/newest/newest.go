// SPDX-License-Identifier: Apache-2.0

// Package newest has no code. Its go.mod names the newest versions that are tested of what programs share with this library, and go.work makes
// every test of a checkout run with them. The go.mod of the root names the oldest ones: GOWORK=off tests those.
package newest

import (
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/execabs"
	_ "google.golang.org/protobuf/proto"
)
