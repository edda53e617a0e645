// SPDX-License-Identifier: Apache-2.0

package leftover

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
)

// ErrNoEngine says that no Docker engine on this host answers, and what would help.
var ErrNoEngine = errors.New("cluster: no docker engine")

const (
	// RunLabel is the label of all that a cluster makes in the engine: which cluster.
	RunLabel   = "redlock.run"
	ownerLabel = "redlock.owner" // the program that opened it; see owner

	probeLimit = 3 * time.Second
	callLimit  = time.Minute // most calls of the client take no context, and its HTTP client has no timeout of its own
)

// Labels are the labels of all that the cluster called run makes.
func Labels(run string) map[string]string {
	return map[string]string{RunLabel: run, ownerLabel: string(self())}
}

// Engine returns a pool whose client speaks the engine's own API version. The library's default, URLs without a version, is
// refused in places by newer engines (dockertest #620).
func Engine() (*dockertest.Pool, string, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	endpoint := pool.Client.Endpoint()
	if !strings.HasPrefix(endpoint, "unix://") {
		const why = "is not a socket of this host, and neither files nor loopback ports can be shared with another host"
		return nil, "", fmt.Errorf("%w: %s %s; unset DOCKER_HOST or use the process driver", ErrNoEngine, endpoint, why)
	}
	pool.Client.SetTimeout(probeLimit)
	v, err := pool.Client.Version()
	if err != nil {
		return nil, "", fmt.Errorf("%w at %s: %w; start one (as root: dockerd), get access to its socket, or use the process driver", ErrNoEngine, endpoint, err)
	}
	client, err := dc.NewVersionedClient(endpoint, v.Get("ApiVersion"))
	if err != nil {
		return nil, "", fmt.Errorf("%w at %s: %w", ErrNoEngine, endpoint, err)
	}
	client.SkipServerVersionCheck = true // we have just asked; and its own check is not safe for parallel calls
	client.SetTimeout(callLimit)
	return &dockertest.Pool{Client: client}, fmt.Sprintf("engine %s (API %s) at %s", v.Get("Version"), v.Get("ApiVersion"), endpoint), nil
}

// IgnoreMissing drops the error of removing what is gone already.
func IgnoreMissing(err error) error {
	var container *dc.NoSuchContainer
	var network *dc.NoSuchNetwork
	if errors.As(err, &container) || errors.As(err, &network) || errors.Is(err, dc.ErrNoSuchImage) {
		return nil
	}
	return err
}
