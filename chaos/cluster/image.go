// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	dc "github.com/ory/dockertest/v3/docker"

	"github.com/redlock-go/redlock/chaos/cluster/redisimage"
)

const (
	publicImage     = "redis:7"
	localRepository = "redlock-redis" // of images made here
	pullLimit       = 20 * time.Second
)

// findImage returns an image that is here: the one asked for (wanted may be empty), the public one, or one made for this run, which has the
// run's labels and goes with its containers.
func (d *containers) findImage(ctx context.Context, wanted string) (string, error) {
	if wanted != "" {
		if err := d.obtain(ctx, wanted); err != nil {
			return "", fmt.Errorf("cluster: image %s is not here and cannot be pulled within %v: %w; "+
				"docker pull it, or ask for none (Config.Image and $REDLOCK_REDIS_IMAGE empty)", wanted, pullLimit, err)
		}
		return wanted, nil
	}
	pullErr := d.obtain(ctx, publicImage)
	if pullErr == nil {
		return publicImage, nil
	}
	image := localRepository + ":" + d.run
	archive, err := redisimage.Archive(ctx, image, d.labels())
	if err != nil {
		return "", fmt.Errorf("cluster: no image: %s is not here and cannot be pulled (%w), and none can be made here: %w", publicImage, pullErr, err)
	}
	err = d.pool.Client.LoadImage(dc.LoadImageOptions{InputStream: bytes.NewReader(archive), OutputStream: io.Discard, Context: ctx})
	if err != nil {
		return "", fmt.Errorf("cluster: load an image made here: %w", err)
	}
	return image, nil
}

// obtain pulls the image if it is not there.
func (d *containers) obtain(ctx context.Context, image string) error {
	if _, err := d.pool.Client.InspectImage(image); !errors.Is(err, dc.ErrNoSuchImage) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	repository, tag := dc.ParseRepositoryTag(image)
	options := dc.PullImageOptions{Repository: repository, Tag: tag, OutputStream: io.Discard, Context: ctx}
	return d.pool.Client.PullImage(options, dc.AuthConfiguration{})
}
